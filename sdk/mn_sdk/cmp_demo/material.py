"""What the demo remembers: a launch with seven workstreams, its rules, its people and its changes of mind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

QUESTION: Final = "Is every workstream ready for the Atlas launch: who owns it, what is planned, what can go wrong?"
_STREAMS: Final = (
    ("web", "Priya", "the marketing site and its signup pages", "the old pages still answer under three domains"),
    ("billing", "Marek", "invoices, refunds and the price change", "refunds of annual plans are worked out by hand"),
    ("mobile", "Aiko", "both apps and their store listings", "store review took nine days in the last release"),
    ("support", "Dana", "the help centre and the on-call roster", "two of five people are on leave in launch week"),
    ("data", "Tomas", "the event pipeline and its dashboards", "the new events have no owner in the warehouse"),
    ("security", "Ines", "the access review and the incident plan", "the last drill stopped at the paging step"),
    ("partners", "Omar", "the reseller portal and its contracts", "two contracts lack a clause on price changes"),
)
_DETAIL: Final = {
    "web": "It was rebuilt on static pages this spring, load tests passed at four times the expected traffic, and the "
    "translations into German and French are with an agency that promised them for the week before.",
    "billing": "The ledger is frozen from Thursday evening, the finance team signs off every migrated account in a "
    "sheet, and the sandbox has run the new prices for eleven days without a difference.",
    "mobile": "Release candidates are built each night, crash-free sessions stand above target on all devices but two "
    "tablets, and a remote switch can hide the new screens without another review.",
    "support": "Macros for the twelve most likely questions are written, the chat widget is limited to paying "
    "customers for two weeks, and escalations go to one channel with a named engineer each day.",
    "data": "Both pipelines run side by side until the end of the month, the nightly comparison mails a list of "
    "differences, and the launch dashboard was agreed with marketing and finance.",
    "security": "All admin accounts were reviewed, tokens older than ninety days are revoked by a job, and the "
    "incident plan names a lead and a deputy for every hour of the first three days.",
    "partners": "The portal takes orders in three currencies, resellers were told of the change by mail and by phone, "
    "and the first orders are checked by two people before they are released.",
}


def memories() -> Iterator[dict[str, Any]]:
    """The arguments of `observe`, in the order in which things became known."""
    yield {
        "event_id": "rule-freeze",
        "kind": "constraint",
        "record": "No change to the Atlas launch goes live between Friday 18:00 and Monday 08:00, for any workstream.",
    }
    for name, owner, owned, risk in _STREAMS:
        about = {"entities": ["Atlas", owner], "topics": ["launch"]}
        yield {
            "event_id": f"{name}-owner",
            "kind": "decision",
            "record": f"For the Atlas launch the {name} workstream owns {owned}, and {owner} answers for it. "
            f"{_DETAIL[name]}",
            "confidence": 0.9,
            **about,
        }
        yield {
            "event_id": f"{name}-plan",
            "kind": "procedure",
            "record": f"Launch plan of the {name} workstream: rehearse on Monday, freeze on Wednesday, hand over to "
            f"{owner} on Thursday morning. Every step has a check that somebody else signs, and a way back that was "
            f"tried once in the rehearsal environment of {name}. Who hands over says what is unfinished, who takes "
            f"over says what is not understood, and neither leaves before both lists are written down for {owner}. "
            f"What is found after the freeze waits for the week behind the launch, unless the incident lead decides.",
            "source_url": f"https://plans.example/{name}",
            **about,
        }
        yield {
            "event_id": f"{name}-status",
            "record": f"Readiness of the {name} workstream in the last review before launch: {owner} reported that the "
            f"rehearsal took {len(owner) * 7} minutes, that {len(owned)} checks were signed and that nothing blocks "
            f"the hand-over. The reviewers asked for one more rehearsal of the way back, with somebody new to it, "
            f"and for a page that tells the other workstreams what {name} needs from them and until when.",
            **about,
        }
        yield {
            "event_id": f"{name}-risk",
            "kind": "evidence",
            "record": f"A risk for the readiness of the {name} workstream: {risk}. {owner} was told in the weekly "
            f"meeting and keeps it on the list of open points until a second person has checked it on site. If it "
            f"happens in the first three days, the {name} workstream falls back to what it did before, tells support "
            f"within the hour, and the launch goes on without it; if it happens later, {owner} decides alone.",
            "stance": "opposes",
            "confidence": 0.7,
            **about,
        }
    yield {
        "event_id": "date-first",
        "kind": "fact",
        "record": "The Atlas launch is planned for 4 May.",
        "entities": ["Atlas"],
        "source_url": "https://minutes.example/12",
    }
    yield {
        "event_id": "date-again",
        "kind": "fact",
        "record": "Atlas launch is planned for 4 May",
        "entities": ["Atlas"],
        "source_url": "https://minutes.example/13",
    }
    yield {
        "event_id": "style",
        "kind": "preference",
        "record": "Answers about the launch name the owner of each workstream first.",
    }


CHANGE: Final[dict[str, Any]] = {
    "event_id": "date-moved",
    "kind": "fact",
    "record": "The Atlas launch is moved to 11 May, because two contracts are not signed.",
    "entities": ["Atlas", "Omar"],
    "supersedes": ["date-first", "date-again"],
}
"""What is learned in the middle of the conversation."""
