package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"kube-vmap/model"
)

// Ask asks one question over a connection of its own: who are you, and whom do
// you see? timeout bounds the wait for connection and answer. Refusal and
// silence are outcomes, not errors; see [Flow.Ask].
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

// ask asks in the network namespace of the calling thread.
func ask(p model.Protocol, from, to netip.AddrPort, timeout time.Duration) (Answer, error) {
	flow, err := newFlow(p, from, to)
	if err != nil {
		// Raw sockets look for a route when they are opened.
		outcome, reason, err := judge(err)
		return Answer{Outcome: outcome, Reason: reason}, err
	}
	answer, err := flow.Ask(timeout)
	return answer, errors.Join(err, flow.Close())
}
