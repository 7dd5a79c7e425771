package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// Ask asks one question over a new connection: which host answers, and which
// source address does it see? timeout bounds the wait for connection and answer.
// Refusal and silence are outcomes, not errors; see [Flow.Ask].
func (h *Host) Ask(p model.Protocol, to netip.AddrPort, timeout time.Duration) (Answer, error) {
	return h.AskFrom(p, netip.AddrPort{}, to, timeout)
}

// AskFrom is [Host.Ask] from a given local address and port. An invalid address
// or port 0 leaves the choice to the host.
func (h *Host) AskFrom(p model.Protocol, from, to netip.AddrPort, timeout time.Duration) (answer Answer, err error) {
	err = h.Do(func() (err error) { answer, err = ask(p, from, to, timeout); return err })
	if err != nil {
		return answer, fmt.Errorf("ask %s/%s from %s: %w", to, p, h.Name, err)
	}
	return answer, nil
}

// AskTwice is [Host.AskFrom] with a second request over the same connection. The answer is the
// second one, if the first request was answered.
func (h *Host) AskTwice(p model.Protocol, from, to netip.AddrPort, timeout time.Duration) (answer Answer, err error) {
	err = h.Do(func() (err error) {
		flow, err := newFlow(p, from, to)
		if err != nil {
			answer.Outcome, answer.Reason, err = classify(err)
			return err
		}
		for n := 0; n < 2 && err == nil && (n == 0 || answer.Outcome == Answered); n++ {
			answer, err = flow.Ask(timeout)
		}
		return errors.Join(err, flow.Close())
	})
	if err != nil {
		return answer, fmt.Errorf("ask %s/%s from %s: %w", to, p, h.Name, err)
	}
	return answer, nil
}

// AskFresh is [Host.Ask] from a [Host.FreshPort] of a given local address. An
// invalid address leaves the choice to the host.
func (h *Host) AskFresh(p model.Protocol, from netip.Addr, to netip.AddrPort, timeout time.Duration) (Answer, error) {
	for {
		a, err := h.AskFrom(p, netip.AddrPortFrom(from, h.FreshPort()), to, timeout)
		if !errors.Is(err, unix.EADDRINUSE) {
			return a, err
		}
	}
}

// Fresh ports are above those of servers, not in the range of node ports, and below the first port
// from which Linux does not connect by default (ip_local_port_range).
const (
	firstFreshPort  = 11000
	firstNodePort   = 30000
	portsBelow      = firstNodePort - firstFreshPort
	firstFreshAbove = 33000
	freshPorts      = portsBelow + 61000 - firstFreshAbove
)

// FreshPort returns a local port that nothing was asked from before, or not for
// long. For connection tracking, a port that is used again can be the connection
// from before, with its endpoint and source address. Hosts begin at ports of their own: of
// two packets from the same port in the same instant, a node that masquerades them can lose one.
func (h *Host) FreshPort() uint16 {
	n := h.fresh.Add(1) % freshPorts
	if n < portsBelow {
		return uint16(firstFreshPort + n)
	}
	return uint16(firstFreshAbove + n - portsBelow)
}

// ask asks in the network namespace of the calling thread.
func ask(p model.Protocol, from, to netip.AddrPort, timeout time.Duration) (Answer, error) {
	flow, err := newFlow(p, from, to)
	if err != nil {
		// Raw sockets look for a route when they are opened.
		outcome, reason, err := classify(err)
		return Answer{Outcome: outcome, Reason: reason}, err
	}
	answer, err := flow.Ask(timeout)
	return answer, errors.Join(err, flow.Close())
}
