package simulator

import (
	"errors"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/nft/kernel/inspect"
	"kube-vmap/nft/kernel/ipset"
	"kube-vmap/nft/kernel/nodestate"
	"kube-vmap/nft/kernel/route"
	"kube-vmap/nft/kernel/survey"
	"kube-vmap/nft/simulate"
)

// A Simulator simulates packets. It is not safe for concurrent use.
type Simulator struct {
	rules       *inspect.Rules
	network     *route.Network
	connections *conntrack.Conntrack
	ipsets      *ipset.Sets
	state       *nodestate.State
	interrupted func() error
	netNS       int
	withoutOurs bool
}

// Config is the configuration of a [Simulator].
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means that of the
	// calling thread.
	NetNS int
	// Interrupted ends a simulation with its error, as the Err of a context would. It may
	// be nil.
	Interrupted func() error
	// WithoutOurs also simulates where kube-vmap has no table.
	WithoutOurs bool
}

// Open opens the sockets to read from.
func Open(c Config) (*Simulator, error) {
	rules, err := inspect.Open(c.NetNS)
	if err != nil {
		return nil, err
	}
	network, err := route.Open(c.NetNS)
	if err != nil {
		return nil, errors.Join(err, rules.Close())
	}
	return &Simulator{
		rules, network, conntrack.New(conntrack.Config{NetNS: c.NetNS}), ipset.New(c.NetNS), nodestate.New(c.NetNS),
		c.Interrupted, c.NetNS, c.WithoutOurs,
	}, nil
}

// Close closes the sockets.
func (s *Simulator) Close() error {
	return errors.Join(s.rules.Close(), s.network.Close(), s.ipsets.Close(), s.state.Close())
}

// Run simulates a packet with [simulate.Run]. Rules of iptables-legacy are not followed. The packet comes in by the named interface;
// without a name, by the one towards its source.
func (s *Simulator) Run(p simulate.Packet, in string) (result simulate.Result, err error) {
	var link simulate.Link
	if in != "" {
		if link, err = s.network.Link(in); err != nil {
			return result, err
		}
	}
	sources := simulate.Sources{
		Rules: s.rules, Network: s.network, Connections: s.connections, IPSets: s.ipsets, Node: s.state, Interrupted: s.interrupted,
		WithoutOurs: s.withoutOurs,
	}
	err = s.rules.Snapshot(func() (err error) {
		result, err = simulate.Run(sources, p, link)
		return err
	})
	if err == nil {
		result.NotFollowed = s.legacy(p.Family())
	}
	return result, err
}

// legacy names the tables of iptables-legacy with rules, and what could not be read of them.
func (s *Simulator) legacy(f model.Family) (out []string) {
	tables, err := survey.Legacy(s.netNS)
	if err != nil {
		out = append(out, err.Error())
	}
	for i := range tables {
		if t := &tables[i]; t.Family == nft.FamilyName(f) && !t.Inert {
			out = append(out, "table "+t.String())
		}
	}
	return out
}
