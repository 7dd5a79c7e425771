package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/flowtable"
	"kube-vmap/sync"
)

// A crossing is a connection through the node whose packets are measured.
type crossing struct {
	name    string
	bridge  bool // the pods are on a bridge
	outside bool // the client is the host outside, at the node port; else a pod, at the ClusterIP
}

var crossings = []crossing{
	{"pod to ClusterIP, links", false, false},
	{"outside to node port, links", false, true},
	{"pod to ClusterIP, bridge", true, false},
	{"outside to node port, bridge", true, true},
}

// pathKinds are the ways of a connection's packets through the node, in the order in which
// they are measured.
const (
	pathDirect = iota // straight to the pod, without translation
	pathSlow          // to the Service
	pathFast          // to the Service, with a flowtable
	pathCount
)

// flowtable measures what a packet of an established connection costs the node, with a
// flowtable and without. It is only meaningful where the clock counts instructions, as on the
// machines of integration/kernels.
func (b *bench) flowtable() error {
	if reason := missingFlowtable(); reason != nil {
		b.Section("Packets of established connections").Note("cannot be had here: %s", reason.Error())
		return nil
	}
	node := b.Section("The node's cost of a packet of an established connection, 64 bytes", "",
		"request: direct", "Service", "flowtable", "saved", "seen", "reply: direct", "Service", "flowtable", "saved", "seen")
	node.Note("from the node's interface to the receiver's, both included; the sender is measured alone and subtracted")
	ends := b.Section("The whole machine's cost: client, node and server", "",
		"64 bytes and back: direct", "Service", "flowtable", "saved", "bulk: direct", "Service", "flowtable", "saved")
	ends.Note("bulk: a message of 32 KiB over TCP, of 1,400 bytes over UDP")
	for _, c := range crossings {
		if c.bridge && lab.MissingBridge() != nil {
			continue
		}
		for _, f := range model.Families {
			if err := b.cross(c, f, node, ends); err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, nft.FamilyName(f), err)
			}
		}
	}
	return nil
}

// cross measures one crossing over TCP and UDP.
func (b *bench) cross(c crossing, f model.Family, node, ends *report.Section) (err error) {
	n, err := newLabNodeOf(lab.Options{Pods: 2, Bridge: c.bridge}, f, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	x, err := newFlowLab(c, n)
	if err != nil {
		return err
	}
	for _, p := range []model.Protocol{model.TCP, model.UDP} {
		costs, err := b.inTurns(x, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		name := fmt.Sprintf("%s, %s, %s", c.name, nft.FamilyName(f), p)
		seen := costs[pathFast].seen
		node.Add(append(append(append(append([]any{name}, savings(costs, atNode(0))...), seen[0]), savings(costs, atNode(1))...), seen[1])...)
		ends.Add(append(append([]any{name},
			savings(costs, func(c *packetCosts) time.Duration { return c.roundTrip.Median() })...),
			savings(costs, func(c *packetCosts) time.Duration { return c.bulk.Median() })...)...)
	}
	return nil
}

// inTurns measures each kind of path, in turns. The first turn does not count: it is the first
// to use code, routes and neighbours.
func (b *bench) inTurns(x *flowLab, p model.Protocol) (costs [pathCount]packetCosts, err error) {
	for turn := range 1 + b.burstRepetitions() {
		if turn == 1 {
			costs = [pathCount]packetCosts{}
		}
		for kind := range costs {
			if err := x.measure(p, kind, &costs[kind]); err != nil {
				return costs, err
			}
		}
	}
	return costs, nil
}

// packetCosts are the costs of one connection's packets.
type packetCosts struct {
	// arrive is a packet that is dropped where it enters the node, through one that is
	// dropped where the receiver would get it; each for requests and replies.
	arrive, through [2]report.Times
	roundTrip, bulk report.Times
	seen            [2]int // of 100 packets, those that the forward hook saw
}

func atNode(direction int) func(*packetCosts) time.Duration {
	return func(c *packetCosts) time.Duration {
		return c.through[direction].Median() - c.arrive[direction].Median()
	}
}

// savings returns the cost of each kind of path, and what the flowtable saves.
func savings(costs [pathCount]packetCosts, of func(*packetCosts) time.Duration) []any {
	slow, fast := of(&costs[pathSlow]), of(&costs[pathFast])
	return []any{of(&costs[pathDirect]), slow, fast, report.Percent(1 - float64(fast)/float64(slow))}
}

// flowLab is a lab with a Service on TCP and UDP and a client of it.
type flowLab struct {
	crossing
	*labNode
	from    *lab.Host
	service netip.AddrPort
	enter   [2]string // the node's interfaces that requests and replies enter
	receive [2]string // interfaces of the server and of the client

	flowtable *flowtable.Table // nil while there is none
}

func newFlowLab(c crossing, n *labNode) (*flowLab, error) {
	x := &flowLab{crossing: c, labNode: n}
	server := n.server[0]
	objects := newCluster(size{10, 10}, n.family)
	objects.nodeAddrs = []netip.Addr{n.lab.Node.Addr(n.family)}
	s := objects.service(servedService)
	s.Ports[0].NodePort = firstNodePort
	udp := s.Ports[0]
	udp.Name, udp.Protocol = "datagrams", model.UDP
	s.Ports = append(s.Ports, udp)
	slice := objects.slice(servedService, 0, n.pods())
	slice.Ports[0].Port = flowPort
	slice.Ports = append(slice.Ports, model.EndpointPort{Name: udp.Name, Protocol: model.UDP, Port: flowPort})
	objects.apply([]sync.Event{sync.SetService{Service: s}, sync.SetSlice{Slice: slice}})
	if c.outside {
		x.from, x.service = n.lab.Outside, n.lab.Node.AddrPort(n.family, firstNodePort)
		x.enter, x.receive = [2]string{"eth0", server.Link}, [2]string{"eth0", n.lab.Node.Name}
	} else {
		x.from, x.service = n.client.Host, netip.AddrPortFrom(s.ClusterIPs[0], servicePort)
		x.enter, x.receive = [2]string{n.client.Link, server.Link}, [2]string{"eth0", "eth0"}
	}
	var err error
	n.proxy, err = newProxy(objects, n.kernel)
	return x, err
}

// measure opens a connection and adds the costs of its packets.
func (x *flowLab) measure(p model.Protocol, kind int, costs *packetCosts) (err error) {
	if err := x.useFlowtable(kind == pathFast); err != nil {
		return err
	}
	to := x.service
	if kind == pathDirect {
		to = x.server[0].AddrPort(x.family, flowPort)
	}
	c, err := x.connect(p, to)
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := c.roundTrips(200); err != nil { // beyond the flowtable's threshold
		return err
	}
	took, err := c.roundTrips(roundTrips)
	if err != nil {
		return err
	}
	costs.roundTrip = append(costs.roundTrip, took)
	if took, err = c.bulk(); err != nil {
		return err
	}
	costs.bulk = append(costs.bulk, took)
	hosts := [2]*lab.Host{x.from, x.server[0].Host}
	for i, end := range []*end{&c.client, &c.server} {
		frame, err := c.capture(end, hosts[i])
		if err != nil {
			return err
		}
		if err := x.blast(frame, i, kind, costs); err != nil {
			return errors.Join(err, frame.close())
		}
		if err := frame.close(); err != nil {
			return err
		}
	}
	return nil
}

// blast sends a captured packet many times, dropped at the node first and then at the receiver.
func (x *flowLab) blast(f *frame, direction, kind int, costs *packetCosts) error {
	receiver := [2]*lab.Host{x.server[0].Host, x.from}[direction]
	take := func(at *lab.Host, device string) (time.Duration, error) {
		if err := dropAt(at, device); err != nil {
			return 0, err
		}
		took, err := f.send()
		return took, errors.Join(err, dropNoMore(at))
	}
	arrive, err := take(x.lab.Node.Host, x.enter[direction])
	if err != nil {
		return err
	}
	if kind == pathFast {
		if costs.seen[direction], err = x.forwarded(f); err != nil {
			return err
		}
	}
	through, err := take(receiver, x.receive[direction])
	costs.arrive[direction] = append(costs.arrive[direction], arrive)
	costs.through[direction] = append(costs.through[direction], through)
	return err
}
