"""What a task or a format of labelled files is made of, for packages that add one.

`glassbert.register` and `glassbert.register_format` make it known. `tests/helpers/longer_task.py` in the
repository is a whole task and a format in one file.
"""

from glassbert.data.examples import Kind as Kind
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
from glassbert.tasks.registry import TaskEntry as TaskEntry
from glassbert.tasks.settings import TaskSettings as TaskSettings
from glassbert.tasks.task import HeadSpec as HeadSpec
from glassbert.tasks.task import Input as Input
from glassbert.tasks.task import Task as Task
