package walk

import (
	"errors"

	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/nft/kernel/inspect"
	"kube-vmap/nft/kernel/route"
	"kube-vmap/nft/simulate"
)

// Simulator explains packets. It is not safe for use by several goroutines.
type Simulator struct {
	rules       *inspect.Rules
	network     *route.Network
	connections *conntrack.Conntrack
	interrupted func() error
}

// Config says whose packets they are.
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means that of the
	// calling thread.
	NetNS int
	// Interrupted ends an explanation by its error, as the Err of a context would. It may
	// be nil.
	Interrupted func() error
}

// Open makes the sockets that answers come from.
func Open(c Config) (*Simulator, error) {
	rules, err := inspect.Open(inspect.Config{NetNS: c.NetNS})
	if err != nil {
		return nil, err
	}
	network, err := route.Open(route.Config{NetNS: c.NetNS})
	if err != nil {
		return nil, errors.Join(err, rules.Close())
	}
	return &Simulator{rules, network, conntrack.New(conntrack.Config{NetNS: c.NetNS}), c.Interrupted}, nil
}

// Close gives the sockets back.
func (w *Simulator) Close() error { return errors.Join(w.rules.Close(), w.network.Close()) }

// Run says what would become of a packet, by [simulate.Run]. It comes in by the
// interface of that name; without one, by that towards its source.
func (w *Simulator) Run(p simulate.Packet, in string) (found simulate.Result, err error) {
	var link simulate.Link
	if in != "" {
		if link, err = w.network.Link(in); err != nil {
			return found, err
		}
	}
	sources := simulate.Sources{Rules: w.rules, Network: w.network, Connections: w.connections, Interrupted: w.interrupted}
	err = w.rules.Snapshot(func() (err error) {
		found, err = simulate.Run(sources, p, link)
		return err
	})
	return found, err
}
