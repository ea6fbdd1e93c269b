from __future__ import annotations

import time
from collections.abc import Callable

from holdfast_agent.contract import EndRequest, render_end_request
from holdfast_agent.control import ControlPoll, end_request_for
from holdfast_agent.objects import ObjectStore, ObjectsUnavailableError
from tests.agent.memory_objects import MemoryObjects

URI = "s3://bucket/control/research/moby.json"


def poll(objects: MemoryObjects, received: list[EndRequest], said: list[str]) -> ControlPoll:
    return poll_of(lambda: objects, received, said)


def poll_of(open_objects: Callable[[], ObjectStore], received: list[EndRequest], said: list[str]) -> ControlPoll:
    return ControlPoll(
        open_objects=open_objects,
        uri=URI,
        job="job-a002",
        attempt=2,
        every_seconds=0.01,
        on_request=received.append,
        say=said.append,
    )


def wait_until_said(said: list[str], number: int) -> None:
    deadline = time.monotonic() + 5
    while len(said) < number and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_request_for_this_attempt_is_received_once() -> None:
    objects, received = MemoryObjects(), []  # type: ignore[var-annotated]
    request = EndRequest("job-a002", 2, "hung at step 80", 1.0)
    objects.put(URI, render_end_request(request))
    poll(objects, received, []).run()
    assert received == [request]


def test_a_request_for_another_job_or_attempt_is_not_this_ones() -> None:
    objects = MemoryObjects()
    for job, attempt in (("job-a001", 1), ("job-a002", 1), ("other", 2)):
        objects.put(URI, render_end_request(EndRequest(job, attempt, "old", 1.0)))
        assert end_request_for(objects, URI, "job-a002", 2) is None


def test_a_store_that_is_down_is_said_once_and_asked_again() -> None:
    objects, received, said = MemoryObjects(), [], []  # type: ignore[var-annotated]
    objects.down = True
    thread = poll(objects, received, said)
    thread.start()
    wait_until_said(said, 1)
    objects.put(URI, render_end_request(EndRequest("job-a002", 2, "hung", 1.0)))
    objects.down = False
    thread.join(5)
    assert len(received) == 1
    assert said == ["the end-yourself request cannot be read, and is tried again: the network is gone"]


def test_an_object_that_is_no_request_ends_nothing() -> None:
    objects, received, said = MemoryObjects(), [], []  # type: ignore[var-annotated]
    objects.put(URI, '{"action": "end"}')
    thread = poll(objects, received, said)
    thread.start()
    wait_until_said(said, 1)
    thread.stop()
    thread.join(5)
    assert received == []
    assert len(said) == 1


def test_an_image_without_boto3_trains_without_requests() -> None:
    def no_store() -> ObjectStore:
        raise ObjectsUnavailableError("the image has no boto3")

    said: list[str] = []
    poll_of(no_store, [], said).run()
    assert said == ["end-yourself requests are not read: the image has no boto3"]
