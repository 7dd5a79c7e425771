package trace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/kernel/route"
	"kube-vmap/nft/simulate"
)

// Config says which packets to follow.
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means that of the
	// calling thread.
	NetNS int
	// Packet is what they look like when they come to the node. Without From, they may
	// come from anybody.
	Packet simulate.Packet
	// Every follows each packet, and not only those that open a connection. (UDP does
	// not say which do.)
	Every bool
	// Replies follows packets that answer, too, from where conntrack knows them on.
	Replies bool
	// Rate is how many packets are followed a second at most, in each direction; zero
	// means 10.
	Rate uint32
}

// defaultRate is enough for who tries by hand, and little for the node.
const defaultRate = 10

func (c *Config) rate() uint32 {
	if c.Rate == 0 {
		return defaultRate
	}
	return c.Rate
}

// ErrLost says that events were lost, because more came than could be read.
var ErrLost = errors.New("messages of nf_tables were lost")

// Tracer hears what nf_tables tells of the packets asked for. It is for one
// goroutine at a time.
type Tracer struct {
	config   Config
	table    string        // its own, in the family of the packet
	events   *netlink.Conn // hears traces
	own      *netlink.Conn // owns the table, and asks
	links    *netlink.Conn // asks for interfaces
	routes   *route.Network
	metadata metadataCache
	paths    assembler
	ready    []*Path // that are over
}

// Sizes of sockets' buffers.
const (
	eventBuffer = 8 << 20 // some ten thousand events
	dumpPiece   = 64 << 10
)

// Open begins to follow packets. An error that is [fs.ErrPermission] says that it
// takes CAP_NET_ADMIN.
func Open(c Config) (*Tracer, error) {
	c.Packet = unmapPacket(c.Packet)
	if err := c.check(); err != nil {
		return nil, err
	}
	t := &Tracer{config: c}
	err := t.open()
	if err == nil {
		err = t.createTable()
	}
	if err != nil {
		return nil, errors.Join(explainError(err), t.Close())
	}
	return t, nil
}

func (c *Config) check() error {
	from, to := c.Packet.From, c.Packet.To
	switch {
	case !to.IsValid():
		return errors.New("trace a packet: it has no destination")
	case from.IsValid() && from.Is4() != to.Addr().Is4():
		return fmt.Errorf("trace a packet: %s and %s are of different families", from, to.Addr())
	}
	return nil
}

// explainError says what to do where permission is missing, or nf_tables.
func explainError(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no permission to trace packets; run as root or with CAP_NET_ADMIN: %w", err)
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPROTONOSUPPORT):
		return fmt.Errorf("the kernel cannot trace packets (CONFIG_NF_TABLES): %w", err)
	}
	return fmt.Errorf("trace packets: %w", err)
}

func (t *Tracer) open() (err error) {
	dial := func(protocol int) *netlink.Conn {
		conn, e := netlink.Dial(protocol, &netlink.Config{NetNS: t.config.NetNS, MessageBufferSize: dumpPiece})
		if err == nil && e != nil {
			err = fmt.Errorf("open a netlink socket: %w", e)
		}
		return conn
	}
	t.events, t.links = dial(unix.NETLINK_NETFILTER), dial(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	if t.routes, err = route.Open(route.Config{NetNS: t.config.NetNS}); err != nil {
		return err
	}
	if err := t.events.SetReadBuffer(eventBuffer); err != nil {
		return fmt.Errorf("set the size of a netlink socket's buffer: %w", err)
	}
	if err := t.events.JoinGroup(unix.NFNLGRP_NFTRACE); err != nil {
		return fmt.Errorf("listen to nf_tables' trace: %w", err)
	}
	return nil
}

// createTable makes the table, in possession of the socket if the kernel can, and
// removes what other tracers left.
func (t *Tracer) createTable() (err error) {
	owned := true
	for range maxTableTries {
		err = t.tryCreateTable(owned)
		switch {
		case err == nil:
			return nil
		case owned && (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL)):
			owned = false
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return err
}

// maxTableTries is how often making the table starts again, because somebody else
// removed what a tracer had left.
const maxTableTries = 5

func (t *Tracer) tryCreateTable(owned bool) (err error) {
	if t.own != nil {
		_ = t.own.Close() // it has asked in vain, and may hold more answers
	}
	t.own, err = netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: t.config.NetNS, MessageBufferSize: dumpPiece})
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
	}
	b, err := removeStaleTables(t.own)
	if err != nil {
		return err
	}
	name := TableName
	if owned { // several tracers may run
		name = fmt.Sprintf("%s-%d", TableName, t.own.PID())
	}
	b.table(&t.config, name, owned)
	if err := b.commit(t.own); err != nil {
		return fmt.Errorf("add table %s: %w", name, err)
	}
	t.table = name
	return nil
}

// Table is the name of the tracer's own table.
func (t *Tracer) Table() string { return t.table }

// Next waits for the next event. ErrLost says that some are missing; it can go on.
func (t *Tracer) Next(ctx context.Context) (Event, error) {
	if err := ctx.Err(); err != nil {
		return Event{}, err
	}
	if err := t.events.SetReadDeadline(time.Time{}); err != nil {
		return Event{}, fmt.Errorf("hear nf_tables' trace: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = t.events.SetReadDeadline(time.Unix(1, 0)) }) // it is open
	defer stop()
	for {
		messages, err := t.events.Receive()
		switch {
		case err != nil && ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
			return Event{}, ctx.Err()
		case errors.Is(err, unix.ENOBUFS):
			return Event{}, ErrLost
		case err != nil:
			return Event{}, fmt.Errorf("hear nf_tables' trace: %w", err)
		}
		for _, m := range messages { // one by one in truth
			if m.Header.Type == unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_TRACE {
				return DecodeEvent(m.Data)
			}
		}
	}
}

// Close removes the table and ends the tracer.
func (t *Tracer) Close() error {
	var errs []error
	if t.own != nil && t.table != "" {
		b := &batch{}
		b.delete(t.config.family(), t.table)
		if err := b.commit(t.own); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			errs = append(errs, fmt.Errorf("remove table %s: %w", t.table, err))
		}
	}
	for _, conn := range []*netlink.Conn{t.events, t.own, t.links} {
		if conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	if t.routes != nil {
		errs = append(errs, t.routes.Close())
	}
	return errors.Join(errs...)
}
