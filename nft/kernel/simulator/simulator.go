// Package simulator runs package simulate on what a network namespace holds. It only reads:
//
//	rules          nf_tables (package dump)
//	network        routes and addresses (package rtnetlink)
//	connections    connection tracking (package conntrack)
//	ipsets         sets of ipset; the kernel looks up a packet, without a program of ipset
package simulator

import (
	"errors"
	"net/netip"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/nft/kernel/dump"
	"kube-vmap/nft/kernel/rtnetlink"
	"kube-vmap/nft/kernel/socket"
	"kube-vmap/nft/simulate"
)

// A Simulator simulates packets. It is not safe for concurrent use.
type Simulator struct {
	Config
	rules       *dump.Reader
	network     *rtnetlink.Network
	connections *conntrack.Conntrack
	ipsets      *ipsets
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
	conn, err := socket.Open(c.NetNS)
	if err != nil {
		return nil, err
	}
	network, err := rtnetlink.OpenNetwork(c.NetNS)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	connections := conntrack.New(conntrack.Config{NetNS: c.NetNS})
	return &Simulator{c, dump.NewReader(conn), network, connections, &ipsets{conn}}, nil
}

// Close closes the sockets.
func (s *Simulator) Close() error {
	return errors.Join(s.rules.Close(), s.network.Close())
}

// Run simulates a packet with [simulate.Run]. Rules of iptables-legacy are not followed. The packet
// comes in by the named interface; without a name, by the one towards its source.
func (s *Simulator) Run(p simulate.Packet, in string) (result simulate.Result, err error) {
	var link simulate.Link
	if in != "" {
		if link, err = s.network.Link(in); err != nil {
			return result, err
		}
	}
	sources := simulate.Sources{
		Rules: s.rules, Network: s.network, Connections: s, IPSets: s.ipsets,
		Interrupted: s.Interrupted, WithoutOurs: s.WithoutOurs,
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

// Flows implements [simulate.Connections].
func (s *Simulator) Flows(p simulate.Packet) (flows []simulate.Flow, err error) {
	list, err := s.connections.Flows(p.Protocol, netip.AddrPortFrom(p.From, p.FromPort), p.To)
	for _, f := range list {
		flows = append(flows, simulate.Flow{
			Client: f.Client, Requested: f.Original, Endpoint: f.Reply, SeenSource: f.SeenSource,
			Status: f.Status, Mark: f.Mark, Labels: f.Labels,
			State: f.State, Expires: f.Expires, Started: f.Started,
			Reopens: f.Protocol == model.TCP && f.Closed, // with a SYN
		})
	}
	return flows, err
}

// legacy names the tables of iptables-legacy with rules, and what could not be read of them.
func (s *Simulator) legacy(f model.Family) (out []string) {
	tables, err := dump.Legacy(s.NetNS)
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
