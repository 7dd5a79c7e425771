package simulator

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/kernel/socket"
)

// state is what rules match on the node besides nf_tables, ipset and connection tracking: the
// socket of a packet, the lists of the match recent, and the queues at which programs listen. It
// is read when a packet meets such a rule. It implements [simulate.NodeState].
type state struct {
	netNS     int
	conn      *netlink.Conn // nil until a socket is asked for
	diagnosed map[byte]bool // protocols for which the kernel looks up sockets
}

// Close closes the netlink socket.
func (s *state) Close() error {
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}

// eachLine calls fn with the fields of each line of a file below /proc/net until it returns
// false. A file that does not exist has no lines.
func (s *state) eachLine(name string, fn func(fields []string) bool) error {
	err := socket.In(s.netNS, func() error {
		f, err := os.Open(filepath.Join("/proc/thread-self/net", name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it was only read from
		return eachLine(f, fn)
	})
	if err != nil {
		return fmt.Errorf("read /proc/net/%s: %w", name, err)
	}
	return nil
}

func eachLine(r io.Reader, fn func(fields []string) bool) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 0 && !fn(fields) {
			return nil
		}
	}
	return lines.Err()
}

// Queues implements [simulate.NodeState].
func (s *state) Queues() (list []uint16, err error) {
	err = s.eachLine("netfilter/nfnetlink_queue", func(fields []string) bool {
		if n, err := strconv.ParseUint(fields[0], 10, 16); err == nil {
			list = append(list, uint16(n))
		}
		return true
	})
	return list, err
}

func addrOf(text string) netip.Addr {
	a, _ := netip.ParseAddr(text)
	return a
}

// RecentAges implements [simulate.NodeState].
func (s *state) RecentAges(list string, a netip.Addr) (ages []time.Duration, err error) {
	if list != filepath.Base(list) {
		return nil, nil // no file can have the name
	}
	now, err := readClock()
	if err != nil {
		return nil, err
	}
	err = s.eachLine(filepath.Join("xt_recent", list), func(fields []string) bool {
		if addr, ok := strings.CutPrefix(fields[0], "src="); !ok || addrOf(addr) != a {
			return true
		}
		ages = now.ages(fields)
		return false
	})
	return ages, err
}

// A clock is the kernel's count of ticks, from which files of recent have times.
type clock struct{ ticks, perSecond uint64 }

// initialTicks is that of a machine that has just started: five minutes before 32 bits are
// full (INITIAL_JIFFIES).
const initialTicks = 5 * 60

// readClock computes the count of ticks, which follow the monotonic clock. That has the
// resolution of a tick in its coarse form.
func readClock() (c clock, err error) {
	var tick, now unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &tick); err != nil {
		return c, fmt.Errorf("find the length of a tick: %w", err)
	}
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return c, fmt.Errorf("read the monotonic clock: %w", err)
	}
	c.perSecond = uint64(time.Second) / uint64(max(tick.Nano(), 1))
	start := uint64(uint32(-initialTicks * int64(c.perSecond)))
	c.ticks = start + uint64(now.Nano())*c.perSecond/uint64(time.Second)
	return c, nil
}

// ages returns how long ago the address of a line was seen: "src=A ttl: 64 last_seen: N
// oldest_pkt: 2 N, N".
func (c clock) ages(fields []string) (ages []time.Duration) {
	const before = 7
	for _, f := range fields[min(before, len(fields)):] {
		n, err := strconv.ParseUint(strings.TrimSuffix(f, ","), 10, 64)
		if err != nil {
			continue
		}
		age := time.Duration(0)
		if n < c.ticks {
			age = time.Duration((c.ticks - n) * uint64(time.Second) / c.perSecond)
		}
		ages = append(ages, age)
	}
	return ages
}
