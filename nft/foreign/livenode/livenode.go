// Package livenode runs package simulate on what a network namespace holds. It only reads:
//
//	rules          nf_tables (package dump)
//	network        routes and addresses (rtnetlink)
//	connections    connection tracking (package conntrack)
//	ipsets         sets of ipset; the kernel looks up a packet, without a program of ipset
package livenode

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/recorder"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/nft/kernel/socket"
)

// A Node simulates packets on a network namespace. It is not safe for concurrent use.
type Node struct {
	Config
	rules       *dump.Reader
	network     *Network
	connections *conntrack.Conntrack
	ipsets      *ipsets
}

// Config is the configuration of a [Node].
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means the
	// calling thread's.
	NetNS int
	// Interrupted ends a simulation with its error, as the Err of a context would. It may
	// be nil.
	Interrupted func() error
	// WithoutOurs also simulates where kube-vmap has no table; otherwise that is [ErrNoTable].
	WithoutOurs bool
	// OnlyConfiguration simulates what rules, routes and sysctls do: without the connections that the
	// kernel tracks, and as if each host on a link replied.
	OnlyConfiguration bool
	// View returns the rules that a packet meets instead of the kernel's rules, unless it is nil.
	View func(simulate.Packet, simulate.Rules) simulate.Rules
}

// ErrNoTable is the error if kube-vmap has no table for the packet's family, without
// [Config].WithoutOurs.
var ErrNoTable = errors.New("there is no table")

// Open opens the sockets to read from.
func Open(c Config) (*Node, error) {
	conn, err := socket.Open(c.NetNS)
	if err != nil {
		return nil, err
	}
	network, err := openNetwork(c.NetNS)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	connections := conntrack.New(conntrack.Config{NetNS: c.NetNS})
	return &Node{c, dump.NewReader(conn), network, connections, &ipsets{conn}}, nil
}

// Network returns the routing of the node, for use between simulations.
func (n *Node) Network() *Network { return n.network }

// Close closes the sockets.
func (n *Node) Close() error {
	return errors.Join(n.rules.Close(), n.network.Close())
}

// Run simulates a packet with [simulate.Run]. Rules of iptables-legacy are not followed. The packet
// comes in by the named interface; without a name, by the one towards its source.
func (n *Node) Run(p simulate.Packet, in string) (result simulate.Result, err error) {
	var link simulate.Link
	if in != "" {
		if link, err = n.network.Link(in); err != nil {
			return result, err
		}
	}
	sources := simulate.Sources{
		Rules: n.rules, Network: n.network, Connections: n, IPSets: n.ipsets, Host: n.network,
		Neighbour: n.network.Neighbour, Interrupted: n.Interrupted,
	}
	if n.OnlyConfiguration {
		sources.Neighbour = nil
	}
	if n.View != nil {
		sources.Rules = n.View(p, n.rules)
	}
	ours := recorder.Recorder{Rules: sources.Rules}
	sources.Own = ours
	var fault error
	err = n.rules.Snapshot(func() (same bool, err error) {
		before := result
		if fault = n.checkTable(sources.Rules, p.Family()); fault == nil {
			result, fault = simulate.Run(sources, p, link)
		}
		if fault == nil {
			fault = ours.Identify(&result)
		}
		return fault == nil && reflect.DeepEqual(before, result), fault
	})
	if fault == nil && errors.Is(err, dump.ErrChanging) {
		result.Doubts, err = append(result.Doubts, simulate.Doubt{Why: err.Error()}), nil
	}
	if err == nil {
		result.NotFollowed = n.legacy(p.Family())
	}
	return result, err
}

func (n *Node) checkTable(r simulate.Rules, f model.Family) error {
	list, err := r.BaseChains(f)
	ours := func(b simulate.BaseChain) bool { return recorder.Recorder{}.Has(b.Table) }
	if err == nil && !n.WithoutOurs && !slices.ContainsFunc(list, ours) {
		return ErrNoTable
	}
	return err
}

// Flows implements [simulate.Connections].
func (n *Node) Flows(p simulate.Packet) (flows []simulate.Flow, err error) {
	if n.OnlyConfiguration {
		return nil, nil
	}
	list, err := n.connections.Flows(p.Protocol, netip.AddrPortFrom(p.From, p.FromPort), p.To)
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
func (n *Node) legacy(f model.Family) (out []string) {
	tables, err := dump.Legacy(n.NetNS)
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
