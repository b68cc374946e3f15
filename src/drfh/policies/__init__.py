"""Online policies: whose turn × fits × which server × when blocked × the order inside a user.

A policy is a value, :class:`Policy`; the scheduler in ``drfh.scheduler`` carries it out. Names are
read by :func:`find_policy`: one of :data:`POLICIES`, or parts joined by ``+``.
"""

from __future__ import annotations

from drfh.policies.policy import POLICIES, Policy, ServerView, TaskView, UserView, find_policy

__all__ = ["POLICIES", "Policy", "ServerView", "TaskView", "UserView", "find_policy"]
