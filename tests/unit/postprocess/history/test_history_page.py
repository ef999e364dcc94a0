"""The page of a nightly needs nothing but itself, and shows what there is: changes, gaps, and that there is little."""

from tests.unit.nights_of_chronicle import LAN, chronicle_of, slower_from
from tests.unit.report_page import Page
from tierbench.postprocess.history.alarms import Watch
from tierbench.postprocess.history.page import _unbroken, history_page


def test_nights_that_are_planned_days_apart_are_one_line_and_a_missing_one_parts_it():
    points = [(night, 1.0) for night in chronicle_of(60).nights[::3]]
    assert [len(piece) for piece in _unbroken(points)] == [20]
    assert [len(piece) for piece in _unbroken(points[:5] + points[6:])] == [5, 14]


def text_of(known):
    return Page(history_page(known, Watch())).text


def test_a_change_is_told_drawn_and_in_the_list_below_its_drawing():
    text = text_of(chronicle_of(60, missed=(20, 21), factors={LAN: slower_from(50, 0.14)}, reruns=(50,)))
    assert " ".join(text.split()).count(f"since the night of the 16th: {LAN}") == 2
    assert "58 measured, 2 missed" in text
    assert "missed: the machine was off" in text


def test_gaps_are_gaps_and_no_lines_across_them():
    text = history_page(chronicle_of(30, missed=(10, 11, 12)), Watch())
    assert text.count('class="steady"') == 3 * 3  # of three configurations
    lines = [part.split('"')[0] for part in text.split('d="')[1:]]
    assert any(line.count("M") == 2 and line.count("L") == 25 for line in lines)


def test_of_few_nights_it_says_that_they_are_few_and_of_none_that_nothing_was_measured():
    text = text_of(chronicle_of(5, missed=(2,)))
    assert "Nothing can be said yet: that takes 7 nights, and there are 4; last measured" in text
    assert "Nothing was measured in the night of" in text_of(chronicle_of(2, missed=(0, 1)))
