"""What is on screen belongs to the newest question, and what was cancelled can be asked again."""

from typing import Any

from helpers.browsing import needs_browser, show

pytestmark = needs_browser


def hold(tab: Any, url: str) -> list[Any]:
    """Keep the requests for an address from the server until they are continued."""
    held: list[Any] = []
    tab.route(url, lambda route: held.append(route))
    return held


def ask(tab: Any, text: str) -> None:
    tab.fill("header input >> nth=0", text)
    tab.press("header input >> nth=0", "Enter")


def wait_for(tab: Any, held: list[Any], count: int) -> None:
    for _ in range(200):
        if len(held) >= count:
            return
        tab.wait_for_timeout(50)
    raise AssertionError("nothing was asked for")


def test_the_words_of_an_earlier_text_do_not_divide_the_matrix_of_another(tab: Any, address: str) -> None:
    show(tab, address, "attention", layer=1, head=0, words=1)
    tab.wait_for_selector("figure.matrix")
    held = hold(tab, "**/words")
    with tab.expect_response("**/tensor*"):
        ask(tab, "Dogs bark.")
    wait_for(tab, held, 1)
    tab.wait_for_timeout(200)
    assert tab.query_selector("figure.matrix") is None
    ask(tab, "All birds sing in the early morning.")
    wait_for(tab, held, 2)
    held[1].continue_()
    tab.wait_for_selector("figure.matrix")
    tab.click("figure.matrix button")
    assert (
        len(tab.query_selector_all("figure.matrix tbody tr")) == 10
    )  # [CLS], seven words, a full stop, [SEP]


def test_what_was_cancelled_can_be_started_again(tab: Any, address: str) -> None:
    show(tab, address, "why", method="occlusion")
    tab.wait_for_selector(".highlighted")
    held = hold(tab, "**/api/why")
    ask(tab, "The dog [MASK] at the cat.")
    wait_for(tab, held, 1)
    tab.click(".progress button")
    again = tab.wait_for_selector(".progress button >> text=Start again")
    assert tab.query_selector(".highlighted") is None  # it explained another text
    tab.unroute("**/api/why")
    again.click()
    tab.wait_for_selector(".highlighted >> text=dog")


def test_pre_training_that_was_cancelled_can_be_started_again(tab: Any, address: str) -> None:
    held = hold(tab, "**/api/pretrain")
    show(tab, address, "pretrain")
    wait_for(tab, held, 1)
    tab.click(".progress button")
    again = tab.wait_for_selector(".progress button >> text=Start again")
    tab.unroute("**/api/pretrain")
    again.click()
    tab.wait_for_selector("main h2")
