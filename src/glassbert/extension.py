"""What tasks, formats of labelled files and objectives are made of, for packages that add one.

`glassbert.register`, `glassbert.register_format` and `glassbert.register_objective` make it known. In the
repository, `tests/helpers/longer_task.py` is a whole task and a format, `tests/helpers/own_objective.py` an
objective.
"""

from glassbert.data.examples import Kind as Kind
from glassbert.data.pretraining.batches import Labels as Labels
from glassbert.data.pretraining.batches import PretrainBatch as PretrainBatch
from glassbert.data.pretraining.examples import Arrangement as Arrangement
from glassbert.data.pretraining.examples import RandomPairs as RandomPairs
from glassbert.data.pretraining.examples import Singles as Singles
from glassbert.data.pretraining.examples import SwappedPairs as SwappedPairs
from glassbert.data.pretraining.masking import Masking as Masking
from glassbert.data.pretraining.packing import Moment as Moment
from glassbert.data.pretraining.packing import Packing as Packing
from glassbert.data.rows.formats import Format as Format
from glassbert.data.rows.lines import Lines as Lines
from glassbert.data.rows.record import Notes as Notes
from glassbert.data.rows.record import Record as Record
from glassbert.data.rows.record import Unusable as Unusable
from glassbert.data.rows.schema import Schema as Schema
from glassbert.data.rows.source import Source as Source
from glassbert.metrics.mistakes import Mistake as Mistake
from glassbert.metrics.mistakes import Passage as Passage
from glassbert.model.bert import Output as Output
from glassbert.tasks.long_text import text_inputs as text_inputs
from glassbert.tasks.objectives.masked import MaskedLanguage as MaskedLanguage
from glassbert.tasks.objectives.masked import MaskedTokens as MaskedTokens
from glassbert.tasks.objectives.objective import Objective as Objective
from glassbert.tasks.objectives.parts import Ids as Ids
from glassbert.tasks.objectives.parts import ObjectiveSettings as ObjectiveSettings
from glassbert.tasks.objectives.parts import Part as Part
from glassbert.tasks.objectives.parts import PretrainNetwork as PretrainNetwork
from glassbert.tasks.objectives.parts import states_at as states_at
from glassbert.tasks.registry import TaskEntry as TaskEntry
from glassbert.tasks.settings import TaskSettings as TaskSettings
from glassbert.tasks.task import HeadSpec as HeadSpec
from glassbert.tasks.task import Input as Input
from glassbert.tasks.task import Task as Task
