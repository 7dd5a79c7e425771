package simulator

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// RecentAges implements [simulate.NodeState].
func (s *State) RecentAges(list string, a netip.Addr) (ages []time.Duration, err error) {
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
