"""The watcher: what strangers change is noticed, however they write, and also when there is no watcher."""

import asyncio
import errno
import os
import shutil
import sys
import threading

import pytest

from teamwright.storage.directory_notifier import is_inotify_available
from teamwright.storage.file_watcher import Watcher, WatchSettings
from teamwright.storage.json_array import file_stamp
from tests.support.waits import WAIT_S


class Heard:
    """A callback that can be waited for."""

    def __init__(self):
        self.times = 0
        self._event = asyncio.Event()

    def __call__(self):
        self.times += 1
        self._event.set()

    async def again(self):
        async with asyncio.timeout(WAIT_S):
            await self._event.wait()
        self._event.clear()


def refuse_to_watch(monkeypatch):
    """As a system does that has no room for another watcher."""

    def refused(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("teamwright.storage.directory_notifier.is_inotify_available", lambda: True)
    monkeypatch.setattr("teamwright.storage.directory_notifier.InotifyNotifier", refused)


@pytest.fixture(params=["the system's own", "the library"])
def notifier(request, monkeypatch):
    """What reports changes: Linux has its own way, other systems use a library."""
    own = request.param == "the system's own"
    if own and not is_inotify_available():
        pytest.skip("this system has no inotify")
    monkeypatch.setattr("teamwright.storage.directory_notifier.is_inotify_available", lambda: own)


def rename_into(path, text):
    beside = path.with_name("beside")
    beside.write_text(text)
    os.rename(beside, path)


@pytest.mark.slow_after(1)
async def test_a_file_that_is_made_renamed_over_written_in_place_and_removed_is_noticed(tmp_path, notifier):
    path = tmp_path / "file"
    async with Watcher() as watcher:
        heard = Heard()
        watcher.follow(path, heard)
        path.write_text("1")
        await heard.again()
        rename_into(path, "two")
        await heard.again()
        with path.open("a") as file:
            file.write("three")
        await heard.again()
        path.unlink()
        await heard.again()
        assert not watcher.is_polling


async def test_a_directory_that_comes_later_or_comes_back_is_watched(tmp_path, notifier):
    path = tmp_path / "later" / "file"
    async with Watcher(WatchSettings(poll_s=0.1)) as watcher:
        heard = Heard()
        watcher.follow(path, heard)
        path.parent.mkdir()
        path.write_text("1")
        await heard.again()
        shutil.rmtree(path.parent)
        await heard.again()
        path.parent.mkdir()
        path.write_text("2")
        await heard.again()


async def test_other_files_of_the_directory_are_nobodys_business(tmp_path):
    path = tmp_path / "file"
    path.write_text("1")
    async with Watcher() as watcher:
        heard, other = Heard(), Heard()
        watcher.follow(path, heard)
        watcher.follow(tmp_path / "other", other)
        (tmp_path / "third").write_text("x")
        (tmp_path / "file.lock").mkdir()
        (tmp_path / "other").write_text("x")
        await other.again()
        assert heard.times == 0


async def test_who_stops_following_hears_nothing_more_and_others_do(tmp_path):
    path = tmp_path / "file"
    async with Watcher() as watcher:
        first, second = Heard(), Heard()
        unfollow = watcher.follow(path, first)
        watcher.follow(path, second)
        unfollow()
        unfollow()
        path.write_text("1")
        await second.again()
        assert first.times == 0


async def test_without_the_watcher_the_slow_look_is_the_net(tmp_path, monkeypatch):
    refuse_to_watch(monkeypatch)
    path = tmp_path / "file"
    async with Watcher(WatchSettings(poll_s=60, blind_poll_s=0.01)) as watcher:
        heard = Heard()
        watcher.follow(path, heard)
        await asyncio.sleep(0)
        assert watcher.is_polling
        path.write_text("1")
        await heard.again()


async def test_a_callback_that_fails_does_not_end_the_watching(tmp_path):
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))

    def fail():
        raise ZeroDivisionError

    async with Watcher() as watcher:
        heard = Heard()
        watcher.follow(tmp_path / "file", fail)
        watcher.follow(tmp_path / "file", heard)
        (tmp_path / "file").write_text("1")
        await heard.again()
        (tmp_path / "file").write_text("22")
        await heard.again()
    assert {type(problem) for problem in told} == {ZeroDivisionError}


async def test_watching_ends_with_its_block_and_an_unused_watcher_starts_nothing(tmp_path):
    before = asyncio.all_tasks()
    async with Watcher() as watcher:
        assert asyncio.all_tasks() == before
        watcher.follow(tmp_path / "file", Heard())
        assert asyncio.all_tasks() != before
    assert asyncio.all_tasks() == before


def test_the_watching_library_is_not_loaded_before_the_first_file():
    import subprocess

    code = "import sys, teamwright.storage.file_watcher; sys.exit('watchfiles' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("field", ["step_ms", "poll_s", "blind_poll_s"])
def test_settings_do_not_change_under_way(field):
    with pytest.raises(AttributeError):
        setattr(WatchSettings(), field, 1)


class Names:
    """Gathers what a directory's callback is told."""

    def __init__(self):
        self.told = set()
        self.whole = 0
        self._event = asyncio.Event()

    def __call__(self, names):
        self.whole += names is None
        self.told |= names or set()
        self._event.set()

    async def until(self, condition):
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self._event.clear()
                await self._event.wait()


def json_files(name):
    return name.endswith(".json")


async def standing(watcher, directory, told):
    """Until the watcher stands: it says so by one look at the whole directory."""
    watcher.follow_directory(directory, told, json_files)
    await told.until(lambda: told.whole)


@pytest.mark.slow_after(1)
async def test_entries_that_are_made_written_in_place_renamed_over_and_removed_are_told_by_name(tmp_path, notifier):
    (tmp_path / "2.json").write_text("1")
    async with Watcher(WatchSettings(poll_s=60)) as watcher:
        told = Names()
        await standing(watcher, tmp_path, told)
        (tmp_path / "note.txt").write_text("1")
        (tmp_path / "1.json").write_text("1")
        await told.until(lambda: "1.json" in told.told)
        (tmp_path / "2.json").write_text("2")
        await told.until(lambda: "2.json" in told.told)
        rename_into(tmp_path / "3.json", "3")
        await told.until(lambda: "3.json" in told.told)
        told.told.clear()
        (tmp_path / "1.json").unlink()
        await told.until(lambda: "1.json" in told.told)
        assert told.told == {"1.json"}


async def test_a_directory_that_is_made_later_is_noticed_without_the_slow_look(tmp_path):
    async with Watcher(WatchSettings(poll_s=60)) as watcher:
        told = Names()
        await standing(watcher, tmp_path / "later", told)
        (tmp_path / "later").mkdir()
        await told.until(lambda: told.whole > 1)
        (tmp_path / "later" / "1.json").write_text("1")
        await told.until(lambda: told.whole > 2 or "1.json" in told.told)


async def test_without_the_watcher_every_slow_look_asks_to_look_at_the_whole_directory(tmp_path, monkeypatch):
    refuse_to_watch(monkeypatch)
    async with Watcher(WatchSettings(poll_s=60, blind_poll_s=0.01)) as watcher:
        told = Names()
        unfollow = watcher.follow_directory(tmp_path, told, json_files)
        await told.until(lambda: told.whole > 1)
        unfollow()
        before = told.whole
        watcher.follow(tmp_path / "file", heard := Heard())
        (tmp_path / "file").write_text("1")
        await heard.again()
        assert told.whole == before


@pytest.mark.finding("T25")
@pytest.mark.skipif(not is_inotify_available(), reason="this system has no inotify")
async def test_a_watcher_that_rests_has_no_thread_and_reads_once_for_many_changes(tmp_path):
    threads = threading.active_count()
    async with Watcher(WatchSettings(poll_s=60)) as watcher:
        heard = Heard()
        watcher.follow(tmp_path / "file", heard)
        for number in range(50):
            (tmp_path / f"other-{number}").write_text("1")
        (tmp_path / "file").write_text("1")
        await heard.again()
        assert threading.active_count() <= threads  # a thread of an earlier test may have ended
        assert watcher._notifier.reads <= 2


@pytest.mark.finding("T17")
async def test_a_change_of_one_file_among_many_is_found_without_looking_at_the_others(tmp_path, monkeypatch):
    async with Watcher(WatchSettings(poll_s=60)) as watcher:
        told = Names()
        await standing(watcher, tmp_path, told)
        for number in range(200):
            watcher.follow(tmp_path / f"{number}", Heard())
        heard, looks = Heard(), []
        watcher.follow(tmp_path / "file", heard)
        monkeypatch.setattr(
            "teamwright.storage.file_watcher.file_stamp", lambda name: looks.append(name) or file_stamp(name)
        )
        (tmp_path / "file").write_text("1")
        await heard.again()
        assert len(looks) < 10
