"""Where the answers to the calls of an event loop arrive."""

from __future__ import annotations

import asyncio
import os
import weakref

from ._native import _Mailbox

__all__ = ["mailbox"]

# The mailbox of each loop is held by the loop alone, so that closing the loop closes it.
_mailboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[_Mailbox]]
_mailboxes = weakref.WeakKeyDictionary()

# A child that takes over a loop of its parent's must not share the parent's file descriptor.
os.register_at_fork(after_in_child=_mailboxes.clear)


def mailbox() -> _Mailbox:
    """That of the running loop, which is made for its first call."""
    loop = asyncio.get_running_loop()
    known = _mailboxes.get(loop)
    mailbox = None if known is None else known()
    if mailbox is None:
        mailbox = _Mailbox(loop)
        loop.add_reader(mailbox.fileno(), mailbox.deliver)
        _mailboxes[loop] = weakref.ref(mailbox)
    return mailbox
