package status

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"kube-vmap/sync"
)

// External is the kind of a frontend of which only the kernel is known: it is one of
// an external IP or of a load balancer's address.
const External = "External"

// Verdicts.
const (
	VerdictBalance = "Balance"
	VerdictReject  = "Reject"
	VerdictDrop    = "Drop"
)

// Reasons why endpoints get no connections, beside those of [model.Reason].
const (
	// ReasonNotProgrammed: it should get some, but the kernel does not have it yet, or
	// refused it; the problems of the Service may say more.
	ReasonNotProgrammed = "NotProgrammed"
)

// Reasons of problems, beside those of events.
const (
	// ReasonNoPort: endpoints there are, but their EndpointSlices do not offer the port
	// of the Service by its name and protocol.
	ReasonNoPort = "NoPort"
	// ReasonUncertain: it is not known now what the kernel holds.
	ReasonUncertain = "Uncertain"
	// ReasonUnread: something could not be read from the kernel.
	ReasonUnread = "Unread"
)

// States of a Service, the worst first.
const (
	StateRefused   = "Refused"     // the kernel would not take some of it
	StateConflict  = "Conflict"    // another Service holds an address of it
	StateUnusable  = "Unusable"    // some of the object cannot be used
	StateMissing   = "Missing"     // a port of it is not programmed
	StateNoPort    = "NoPort"      // endpoints, but none has the port
	StateNone      = "NoEndpoints" // of a port there is no endpoint anywhere
	StateElsewhere = "NotLocal"    // a policy is Local, and the endpoints are on other nodes
	StateOpen      = "Open"        // open to more than it may seem
	StateOK        = "OK"
	// StateProgrammed: nothing is wrong with what the kernel has of it, which knows
	// nothing of objects, conflicts and what it does not have.
	StateProgrammed = "Programmed"
)

// reasonStates are the states that problems of a reason make, the worst first.
var reasonStates = []struct{ reason, state string }{
	{sync.ReasonRefused, StateRefused},
	{sync.ReasonConflict, StateConflict},
}

// StateOf is the state of a Service of the document, as far as its source can know it.
func (d *Document) StateOf(s *Service) string {
	state := s.State()
	if d.Source == FromKernel && state == StateOK {
		return StateProgrammed
	}
	return state
}

// State is the state of the Service in one word: the worst that is true. A problem of a
// reason that has no state of its own makes it Unusable.
func (s *Service) State() string {
	for _, r := range reasonStates {
		if s.has(r.reason) {
			return r.state
		}
	}
	if slices.ContainsFunc(s.Problems, func(p Problem) bool { return p.Reason != ReasonNoPort && p.Reason != sync.ReasonOpen }) {
		return StateUnusable
	}
	verdicts := map[string]bool{}
	for i := range s.Ports {
		if len(s.Ports[i].Frontends) == 0 {
			return StateMissing
		}
		for k := range s.Ports[i].Frontends {
			verdicts[s.Ports[i].Frontends[k].Verdict] = true
		}
	}
	switch {
	case s.has(ReasonNoPort):
		return StateNoPort
	case verdicts[VerdictReject]:
		return StateNone
	case verdicts[VerdictDrop]:
		return StateElsewhere
	case s.has(sync.ReasonOpen):
		return StateOpen
	}
	return StateOK
}

// has reports whether a problem of the Service has the reason.
func (s *Service) has(reason string) bool {
	for i := range s.Problems {
		if s.Problems[i].Reason == reason {
			return true
		}
	}
	return false
}

// At is the frontend's address and port as clients write it, and the protocol:
// "10.96.0.10:53/udp", "*:30053/udp" for a node port.
func (f *Frontend) At(protocol string) string {
	host := "*:" + strconv.Itoa(int(f.Port))
	if f.Address != "" {
		host = net.JoinHostPort(f.Address, strconv.Itoa(int(f.Port)))
	}
	return host + "/" + strings.ToLower(protocol)
}

// At is the endpoint's address and port; without the port, its address alone.
func (e *Endpoint) At() string {
	if e.Port == 0 {
		return e.Address
	}
	return net.JoinHostPort(e.Address, strconv.Itoa(int(e.Port)))
}

// Used reports whether the endpoint gets connections.
func (e *Endpoint) Used() bool { return e.Slot != nil || e.LocalSlot != nil }

// addrPort is the endpoint's address and port as a value.
func (e *Endpoint) addrPort() netip.AddrPort {
	a, _ := netip.ParseAddr(e.Address) // it was made of one
	return netip.AddrPortFrom(a, e.Port)
}
