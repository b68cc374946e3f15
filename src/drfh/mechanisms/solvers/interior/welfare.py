"""Interior-point method for concave welfare functions.

Maximise Σ_i w_i·q_i^(1-beta)/(1-beta) over all placements, where q_i = unit_i·share_i/w_i (for
beta = 1: Σ w_i·log q_i), plus, for the family of Joe-Wong et al., a part that depends on the total
Σ_i unit_i·share_i.
A user's marginal welfare is unit_i·(phi_i + kappa) with phi_i = q_i^(-beta) and kappa = `extra`
times the mean of phi, each user counting with what it has. Only the direction of this vector
matters, so its length is free: all that users have is worth 1 together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from drfh.allocation.problem import Floats, Ints
from drfh.kernels.threads import one_thread
from drfh.mechanisms.solvers.presolve import Classes

__all__ = ["LIGHTEST", "Optimum", "Path", "Solve", "arrow", "maximise"]


#: From the right-hand sides of servers (r × l) and users (c) to their unknowns.
Solve: TypeAlias = Callable[[Floats, Floats], tuple[Floats, Floats]]


def arrow(matrix: Floats, cross: Floats, diagonal: Floats) -> Solve:
    """Return a function that solves [[matrix, -cross], [-cross', diagonal]] for right-hand sides.

    Parameters
    ----------
    matrix : array, r × r × l
    cross : array, r × c × l
    diagonal : array, c
    """
    m, n, k = cross.shape
    blocks = matrix.transpose(2, 0, 1)
    if n <= k * m:
        size = 1 / np.sqrt(np.diagonal(blocks, axis1=1, axis2=2))
        root = _inverse_root(blocks * size[:, :, None] * size[:, None, :]) * size[:, None, :]
        side = (root @ cross.transpose(2, 0, 1)).reshape(k * m, n)
        scale = 1 / np.sqrt(diagonal)
        scaled = side * scale
        dense = _inverse_root(np.eye(n) - scaled.T @ scaled) * scale

        def users_last(right_p: Floats, right_u: Floats) -> tuple[Floats, Floats]:
            half = (root @ right_p.T[:, :, None]).reshape(k * m)
            mu = dense.T @ (dense @ (right_u + side.T @ half))
            back = (half + side @ mu).reshape(k, 1, m)
            return (back @ root)[:, 0, :].T, mu

        return users_last
    side = cross.transpose(2, 0, 1).reshape(k * m, n)
    schur = -(side / diagonal) @ side.T
    number = np.arange(k)
    schur.reshape(k, m, k, m)[number, :, number, :] += blocks
    scale = 1 / np.sqrt(np.diagonal(blocks, axis1=1, axis2=2).reshape(k * m))
    dense = _inverse_root(schur * scale[:, None] * scale) * scale

    def servers_last(right_p: Floats, right_u: Floats) -> tuple[Floats, Floats]:
        p = dense.T @ (dense @ (right_p.T.reshape(k * m) + side @ (right_u / diagonal)))
        return p.reshape(k, m).T, (right_u + side.T @ p) / diagonal

    return servers_last


def _inverse_root(matrix: Floats) -> Floats:
    """Return the inverse of the Cholesky factor; diagonals were about 1, lift them if need be."""
    for lift in (0.0, 1e-15, 1e-14, 1e-13, 1e-11, 1e-9):
        try:
            lifted = matrix + lift * np.eye(matrix.shape[-1]) if lift else matrix
            return np.asarray(np.linalg.inv(np.linalg.cholesky(lifted)), dtype=np.float64)
        except np.linalg.LinAlgError:
            pass
    raise np.linalg.LinAlgError


_ITERATIONS = 200
_TARGET = 1e-13  # complementarity and residuals at which nothing is left to gain
_NEAR = 1e-9  # an error that needs no second try
_PATIENCE = 3  # steps without progress, when near the target
_LONG_PATIENCE = 40  # and when far: the error may well rise at first
_FLOOR = 2e-14  # gap below which amounts lose their digits
_REFINE = 1  # times that a step is refined
_PACE, _ROUGH = 1.3, 0.1  # of the detour by way of Nash welfare
_HALVINGS = 20
_STRAY = 0.5  # how far a user may be from its demand, as a logarithm of what it has
_MOST_BETA = 4.0  # beyond, prices and not amounts set the limit
_BOUNDARY = 1 - 1e-6  # nearest that a step comes to where something is 0
_FAINTEST = 1e-13  # part of kappa below which phi cannot steer a user

Direction: TypeAlias = Callable[[Floats, Floats, Floats], tuple[Floats, ...]]


class Path:
    """The central path. Rows r, user classes c, server classes l; members i of classes.

    Attributes
    ----------
    x, z : arrays, c × l
        Part of a server that a class could take alone, and its reduced cost.
    s, p : arrays, r × l
        Free part of each resource, and its price.
    u, t, tau : arrays, i
        Share of each member, what is left below its limit, and the price of the limit.
    mu : array, c
        Price of a share.
    """

    def __init__(
        self,
        classes: Classes,
        present: Ints,
        who: Ints,
        group: Ints,
        unit: Floats,
        beta: float,
        extra: float,
        lightest: float,
    ) -> None:
        problem = classes.problem
        d, c = classes.direction[present].T[:, :, None], classes.capacity.T[:, None, :]
        self.usable = classes.usable[present]
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = np.where(d > 0, c / d, math.inf).min(axis=0)
            self.alone = np.where(self.usable, alone, 0.0)
            load = np.where((c > 0) & self.usable, d * self.alone / c, 0.0)
        self.load: Floats = np.minimum(load, 1.0)
        self.group, self.unit, self.beta, self.extra = group, unit, beta, extra
        weight = problem.weight[who] / problem.weight[who].max()  # only ratios count
        self.weight: Floats = np.maximum(weight, lightest)
        limit = problem.share_limit[who]
        self.capped = limit < self.alone.sum(axis=1)[group]  # others cannot reach theirs
        self.cap = np.where(self.capped, limit, math.inf)
        self.limited = bool(self.capped.any())
        self._start()

    def _sum(self, values: Floats) -> Floats:
        return np.bincount(self.group, values, len(self.alone)).astype(np.float64, copy=False)

    def _start(self, most: float = math.inf) -> None:
        """Begin with every server half full, shared by rule of thumb; all limits half full."""
        total = self.alone.sum(axis=1)
        if_alone = self.unit * total[self.group]
        if_alone /= if_alone.max()
        part = self.weight * if_alone ** (min(1 / self.beta, 2.0) - 1)
        part *= 0.5 / part.sum()
        self.u = np.minimum(part * total[self.group], self.cap / 2)
        # Nobody so far above another that its marginal welfare drowns.
        level = self.unit / self.weight
        self.u = np.minimum(self.u, (level * self.u).min() * math.exp(10 / self.beta) / level)
        fraction = self._sum(self.u) / total
        # Pairs that cannot be have x = z = 1, and neither load nor share.
        self.x = np.where(self.usable, fraction[:, None], 1.0)
        self.s = 1 - (self.load * self.x).sum(axis=1)
        self.t = np.where(self.capped, self.cap - self.u, 1.0)
        value = self._value(self.u)
        # Who is bound by its limit pays for that as much as for servers.
        least = np.full(len(self.alone), math.inf)
        np.minimum.at(least, self.group, np.where(self.capped, value / 2, value))
        self.mu = least
        self.tau = np.where(self.capped, np.maximum(value - least[self.group], 0.1 * value), 0.0)
        # Prices that cover what everybody would pay, unless they are too high by far.
        top = np.minimum(2 * (self.alone * least[:, None]).max(axis=0), most)
        top[top <= 0] = top.max()
        self.p = np.broadcast_to(top, self.s.shape)
        over = _cost(self.load, self.p) - self.alone * least[:, None]
        self.z = np.where(self.usable, np.maximum(over, 0.1 * top), 1.0)
        self.count = int(self.usable.sum() + self.s.size + self.capped.sum())

    def _value(self, u: Floats) -> Floats:
        """Return the marginal welfare of shares."""
        phi, kappa = self._phi(u)
        return self.unit * (phi + kappa)

    def _phi(self, u: Floats) -> tuple[Floats, float]:
        """Return phi and kappa, so long that all that users have is worth 1 together."""
        y = self.unit * u
        q = y / self.weight
        phi: Floats = (q / q.min()) ** -self.beta
        held = y @ phi
        share = self.extra / (1 + self.extra)
        return phi * ((1 - share) / held), float(share / y.sum())

    def follow(self) -> None:
        """Follow the path to its end; where that fails, from the side of Nash welfare."""
        error = self._descend(_TARGET)
        if error <= _NEAR or (self.beta == 1 and self.extra == 0):
            return
        kept, beta, extra = self._state(), self.beta, self.extra
        self.beta, self.extra = 1.0, 0.0
        self._start(most=1.0)  # all servers together are worth no more
        while self.beta != beta:
            self._descend(_ROUGH)
            self.beta = min(self.beta * _PACE, beta) if beta > 1 else max(self.beta / _PACE, beta)
        self._descend(_ROUGH)
        self.extra = extra
        if not self._descend(_TARGET) < error:
            self.x, self.z, self.s, self.p, self.u, self.t, self.tau, self.mu = kept

    def _descend(self, target: float) -> float:
        """Take Newton steps until the error is small or does not shrink; return it."""
        best, kept, waited = math.inf, self._state(), 0
        for _ in range(_ITERATIONS):
            error = self._error()
            if error < best * 0.9:
                best, kept, waited = error, self._state(), 0
            else:
                waited += 1
            patience = _PATIENCE if best < _NEAR else _LONG_PATIENCE
            if error <= target or waited > patience or not math.isfinite(error):
                break
            try:
                self._step()
            except np.linalg.LinAlgError:
                break
        self.x, self.z, self.s, self.p, self.u, self.t, self.tau, self.mu = kept
        return best

    def _state(self) -> tuple[Floats, ...]:
        return (self.x, self.z, self.s, self.p, self.u, self.t, self.tau, self.mu)

    def _gap(self) -> float:
        used = float((self.x * self.z)[self.usable].sum())
        return used + float((self.s * self.p).sum()) + float((self.t * self.tau).sum())

    def _error(self) -> float:
        """Return what is missing to an optimum, relative to the value of all that users have."""
        price = self.mu[self.group] + self.tau
        off = np.abs(1 - self._value(self.u) / price)
        cost = _cost(self.load, self.p) - self.alone * self.mu[:, None]
        short = np.where(self.usable, np.abs(cost - self.z), 0.0) * self.x
        over = np.abs(1 - (self.load * self.x).sum(axis=1) - self.s)
        given = self._sum(self.u)
        lost = np.abs((self.alone * self.x).sum(axis=1) / given - 1)
        self.total = float(price @ self.u)
        dual = self._gap() + float((off * price) @ self.u) + float(short.sum())
        return dual / self.total + float(over.max()) + float(lost.max())

    def _newton(self) -> Direction:
        """Return the function from wanted changes of x·z, s·p and t·tau to the step there."""
        load, alone, x, z, s, p = self.load, self.alone, self.x, self.z, self.s, self.p
        u, t, tau, mu, group = self.u, self.t, self.tau, self.mu, self.group
        y = self.unit * u
        phi, kappa = self._phi(u)
        value = phi + kappa
        price = mu[group] + tau
        steered = np.maximum(phi, _FAINTEST * value)
        pull = u * value / (self.beta * steered * price)
        off = self._stray(u, tau, mu)
        stiff = pull / (1 + pull * tau / t)
        theta = x / z
        weighted = theta * load
        matrix = (weighted[:, None] * load[None]).sum(axis=2)  # r × r × l
        r = np.arange(len(load))
        matrix[r, r] += s / p
        cross = weighted * alone
        diagonal = (theta * alone * alone).sum(axis=1) + self._sum(stiff)
        solve = arrow(matrix, cross, diagonal)
        reduced = _cost(load, p) - alone * mu[:, None] - z
        reduced[~self.usable] = 0.0
        full = 1 - (load * x).sum(axis=1) - s
        missing = (alone * x).sum(axis=1) - self._sum(u)
        # Users meet in two more numbers, the length of the gradient and kappa: how they answer to
        # what users have (slopes), and users to them (lifts).
        slopes, lifts = [], []
        if self.beta != 1:
            slopes.append((self.beta - 1) * (1 + self.extra) * self.unit * phi)
            lifts.append(price)
        if self.extra > 0:
            slopes.append(self.unit * (self.extra * (1 - self.beta) * phi - kappa) / float(y.sum()))
            lifts.append(price / value)
        slope, lift = np.array(slopes), stiff * np.array(lifts).reshape(-1, len(u))
        along = [solve(np.zeros_like(p), self._sum(row)) for row in lift]
        if along:
            answer = lift - stiff * np.array([mu_row[group] for _, mu_row in along])
            ease = np.linalg.inv(np.eye(len(along)) - slope @ answer.T)

        def direction(xz: Floats, sp: Floats, tt: Floats) -> tuple[Floats, ...]:
            own = -off * price - tt / t
            dx = xz / z - theta * reduced
            ds, du = sp / p, stiff * own
            dp, dmu, joint = np.zeros_like(p), np.zeros_like(mu), np.zeros(len(along))
            for _ in range(1 + _REFINE):
                # What the rows of servers and users still miss. Large ratios magnify the round-off
                # of prices; those of a correction are small, and so is what they add.
                short = full - (load * dx).sum(axis=1) - ds
                needed = self._sum(du) - (alone * dx).sum(axis=1) - missing
                more_p, more_mu = solve(-short, needed)
                if along:
                    more = ease @ (slope @ (du - stiff * more_mu[group]) - joint)
                    for factor, (along_p, along_mu) in zip(more, along, strict=True):
                        more_p, more_mu = more_p + factor * along_p, more_mu + factor * along_mu
                    du, joint = du + more @ lift, joint + more
                dx = dx - theta * (_cost(load, more_p) - alone * more_mu[:, None])
                ds = ds - s * more_p / p
                du = du - stiff * more_mu[group]
                dp, dmu = dp + more_p, dmu + more_mu
            dz = np.where(self.usable, _cost(load, dp) - alone * dmu[:, None] + reduced, 0.0)
            dt = np.where(self.capped, -du, 0.0)
            dtau = np.where(self.capped, (tt - tau * dt) / t, 0.0)
            return dx, dz, ds, dp, du, dt, dtau, dmu

        return direction

    def _step(self) -> None:
        """Predict, correct, and go as far as nothing becomes negative and nobody strays."""
        x, z, s, p, u, t, tau, mu = values = self._state()
        direction = self._newton()
        now = self._gap()
        aim = direction(-x * z, -s * p, -t * tau)
        reach = self._reach(values, aim)
        ahead = [a + reach * b for a, b in zip(values[:7], aim[:7], strict=True)]
        gap = float((ahead[0] * ahead[1])[self.usable].sum() + (ahead[2] * ahead[3]).sum())
        gap += float((ahead[5] * ahead[6]).sum())
        # Past the floor nothing is gained, and the digits of the amounts are lost.
        centre = max((gap / now) ** 3 * now, _FLOOR * self.total) / self.count
        final = direction(
            np.where(self.usable, centre - x * z - aim[0] * aim[1], 0.0),
            centre - s * p - aim[2] * aim[3],
            np.where(self.capped, centre - t * tau - aim[5] * aim[6], 0.0),
        )
        reach = self._reach(values, final)
        reach *= min(max(0.9, 1 - now / self.total), _BOUNDARY)
        was = float(np.abs(self._stray(u, tau, mu)).max())
        stray = _STRAY * min(self.beta, _MOST_BETA)
        for _ in range(_HALVINGS):
            moved = [a + reach * b for a, b in zip(values, final, strict=True)]
            # Nobody may stray from what it would want at its price: it does not find back.
            if (
                float(np.abs(self._stray(moved[4], moved[6], moved[7])).max())
                <= (1 - reach) * was + stray
            ):
                break
            reach /= 2
        self.x, self.z, self.s, self.p, self.u, self.t, self.tau, self.mu = moved

    def _stray(self, u: Floats, tau: Floats, mu: Floats) -> Floats:
        """Return how far price and marginal welfare are apart, as a logarithm."""
        apart: Floats = np.log((mu[self.group] + tau) / self._value(u))
        return apart

    def _reach(self, values: tuple[Floats, ...], step: tuple[Floats, ...]) -> float:
        """Return the longest step, at most 1, that keeps amounts and prices nonnegative."""
        x, z, s, p, u, t, tau, mu = zip(values, step, strict=True)
        price = mu[0][self.group] + tau[0], mu[1][self.group] + tau[1]
        pairs = [x, z, s, p, u, price]
        if self.limited:
            pairs += [(now[self.capped], move[self.capped]) for now, move in (t, tau)]
        worst = min(float((move / now).min()) for now, move in pairs)
        return 1.0 if worst >= -1 else -1 / worst


def _cost(load: Floats, p: Floats) -> Floats:
    """Return what a server costs the user class that has it alone."""
    cost: Floats = (load * p[:, None, :]).sum(axis=0)
    return cost


#: Products of ratios beyond this leave the range of floats.
LIGHTEST = 1e-100


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """The allocation and its prices, whose common length is arbitrary.

    Attributes
    ----------
    share : array
        Of every user.
    amount, prices : arrays
        By class: share on each class of servers; price of each resource there.
    worth : array
        Least price of a share, by class of users.
    gradient : array
        Marginal welfare of every user's share, on the scale of the prices.
    """

    share: Floats
    amount: Floats
    prices: Floats
    worth: Floats
    gradient: Floats


@one_thread()
def maximise(
    classes: Classes, unit: Floats, beta: float, extra: float = 0.0, lightest: float = LIGHTEST
) -> Optimum:
    """Return the allocation of the largest welfare.

    Parameters
    ----------
    classes
        The problem, alike users and servers joined.
    unit
        What one share of each user counts.
    beta
        How much the poor count more, > 0.
    extra
        Weight of the total, ≥ 0.
    lightest
        Part of the largest weight that everybody is taken to have at least.
    """
    problem = classes.problem
    who = np.flatnonzero(problem.share_limit > 0)
    n, k = classes.usable.shape
    result = Optimum(
        np.zeros(len(problem.users)),
        np.zeros((n, k)),
        np.zeros_like(classes.capacity),
        np.zeros(n),
        np.zeros(len(problem.users)),
    )
    if len(who) == 0:
        return result
    present, group = np.unique(classes.user_class[who], return_inverse=True)
    with np.errstate(all="ignore"):  # a step too far is noticed and taken back
        path = Path(classes, present, who, group, unit[who], beta, extra, lightest)
        path.follow()
    result.share[who] = path.u
    result.amount[present] = path.x * path.alone
    with np.errstate(divide="ignore", invalid="ignore"):
        result.prices[:] = np.where(classes.capacity > 0, path.p.T / classes.capacity, 0.0)
    result.worth[present] = path.mu
    result.gradient[who] = path.mu[group] + path.tau
    return result
