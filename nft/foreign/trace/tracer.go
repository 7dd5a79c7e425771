package trace

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/kernel/socket"
)

// Config is the configuration of a [Tracer]: which packets to trace.
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means the
	// calling thread's.
	NetNS int
	// Packet is what packets look like when they come to the node.
	Packet simulate.Packet
	// Every traces each packet, not only those that open a connection. (UDP does not show
	// which do.)
	Every bool
	// Replies traces replies, too, from the point where conntrack knows them.
	Replies bool
	// Rate is the maximum number of packets traced per second and direction; zero means 10,
	// which is enough for tests by hand, and a low load for the node.
	Rate uint32
}

// A Tracer receives what nf_tables reports about the selected packets. It is not safe for
// concurrent use.
type Tracer struct {
	config Config
	table  string        // its own, in the family of the packet
	events *netlink.Conn // receives traces
	own    *netlink.Conn // owns the table, and reads nf_tables
	reader *dump.Reader  // of own
	routes *livenode.Network
	paths  assembler
	ready  []*Path // that have ended
}

// eventBuffer is the size of the buffer of events; it holds some ten thousand.
const eventBuffer = 8 << 20

// Open begins to trace packets. The error is [fs.ErrPermission] without CAP_NET_ADMIN.
func Open(c Config) (*Tracer, error) {
	c.Rate = cmp.Or(c.Rate, 10)
	t := &Tracer{config: c}
	err := t.open()
	if err == nil {
		err = t.install()
	}
	if err != nil {
		return nil, errors.Join(explainError(err), t.Close())
	}
	return t, nil
}

// explainError adds to an error how to get permission, or what the kernel lacks.
func explainError(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return socket.ExplainPermission(err, "trace packets")
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPROTONOSUPPORT):
		return fmt.Errorf("the kernel cannot trace packets (CONFIG_NF_TABLES): %w", err)
	}
	return fmt.Errorf("trace packets: %w", err)
}

func (t *Tracer) open() (err error) {
	if t.events, err = socket.Open(t.config.NetNS); err != nil {
		return err
	}
	if t.own, err = socket.Open(t.config.NetNS); err != nil {
		return err
	}
	t.reader = dump.NewReader(t.own)
	if t.routes, err = livenode.OpenNetwork(t.config.NetNS); err != nil {
		return err
	}
	if err := t.events.SetReadBuffer(eventBuffer); err != nil {
		return fmt.Errorf("set the buffer size of a netfilter socket: %w", err)
	}
	if err := t.events.JoinGroup(unix.NFNLGRP_NFTRACE); err != nil {
		return fmt.Errorf("subscribe to traces of nf_tables: %w", err)
	}
	return nil
}

// Close closes the sockets, with which the kernel deletes the table.
func (t *Tracer) Close() error {
	var errs []error
	for _, conn := range []*netlink.Conn{t.events, t.own} {
		if conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	if t.routes != nil {
		errs = append(errs, t.routes.Close())
	}
	return errors.Join(errs...)
}
