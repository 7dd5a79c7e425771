package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	stdsync "sync"
	"sync/atomic"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/pathcheck"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/nft/kernel/socket"
	"kube-vmap/sync"
	"kube-vmap/sync/throttle"
)

// A pathChecker simulates check packets when nf_tables change, and now and then because routes,
// sysctls and iptables-legacy may.
type pathChecker struct {
	loop        *sync.Loop
	healthPorts func(balanced bool) []uint16

	mu       stdsync.Mutex // guards the following
	throttle throttle.Throttle
	checked  time.Time // the last time that it succeeded
	err      error

	results atomic.Pointer[[]pathcheck.Result]
}

const (
	// pauseFactor times the processor time of a simulation is the pause after it: a hundredth of a processor.
	pauseFactor = 99
	// lookPeriod is how often to look whether nf_tables have changed, idlePeriod how often to simulate
	// if not, and maxRuleset how long to wait for the loop, which may wait for the kernel.
	lookPeriod, idlePeriod, maxRuleset = 5 * time.Second, 30 * time.Second, time.Second / 2
	// maxAge is how old results may be without an error.
	maxAge = time.Minute
)

func newPathChecker(
	loop *sync.Loop, background *throttle.Budget, healthPorts func(balanced bool) []uint16,
) *pathChecker {
	c := &pathChecker{loop: loop, healthPorts: healthPorts, throttle: background.Throttle(0), checked: time.Now()}
	c.throttle.Factor = pauseFactor
	c.results.Store(&[]pathcheck.Result{})
	return c
}

// Run checks until ctx ends.
func (c *pathChecker) Run(ctx context.Context) error {
	var last uint32
	var checked time.Time
	for sync.Sleep(ctx, lookPeriod) {
		now, err := generation()
		if err == nil && now == last && time.Since(checked) < idlePeriod {
			continue
		}
		_ = c.check(ctx) // status has the error
		last, checked = now, time.Now()
	}
	return nil
}

func generation() (id uint32, err error) {
	conn, err := socket.Open(0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return socket.Generation(conn)
}

// check simulates the packets, unless it did a moment ago. If it cannot, the last results stay.
func (c *pathChecker) check(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.throttle.Remaining() == 0 {
		c.throttle.Do(func() { c.err = c.simulate(ctx) })
	}
	if age := time.Since(c.checked); c.err != nil && age > maxAge {
		return fmt.Errorf("packets not checked for %s: %w", age.Round(time.Second), c.err)
	}
	return nil
}

func (c *pathChecker) simulate(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, maxRuleset)
	defer cancel()
	rules, _, err := c.loop.Ruleset(wait)
	switch {
	case errors.Is(err, sync.ErrEnded): // the node was returned to kube-proxy
		c.results.Store(&[]pathcheck.Result{})
		return nil
	case err != nil:
		return err
	case rules == nil:
		return errors.New("the kernel's rules are not known")
	}
	targets := pathcheck.Targets(rules.Installed(), rules.NodeAddrs())
	balanced := slices.ContainsFunc(targets, func(t pathcheck.Target) bool { return t.Kind == model.KindLoadBalancerIP })
	choose := func(n *livenode.Network) []pathcheck.Packet {
		return pathcheck.Choose(n, targets, c.healthPorts(balanced))
	}
	results, err := pathcheck.Simulate(livenode.Config{Interrupted: ctx.Err}, choose)
	if err == nil {
		c.results.Store(&results)
		c.checked = time.Now()
	}
	return err
}

// count returns how many packets have a state.
func (c *pathChecker) count(s string) (n int) {
	for _, r := range *c.results.Load() {
		if r.State == s {
			n++
		}
	}
	return n
}

// addNetwork adds what of the node's network keeps packets from Services.
func (c *pathChecker) addNetwork(ctx context.Context, add func(reason, format string, args ...any)) error {
	full, err := conntrack.New(conntrack.Config{}).IsFull()
	if full {
		add(nodestatus.ReasonTracking, "connection tracking is nearly full: new connections may be dropped")
	}
	err = cmp.Or(c.check(ctx), err)
	for _, r := range *c.results.Load() {
		switch {
		case r.State == pathcheck.Lost && !r.Health:
			add(nodestatus.ReasonForwarding, "packets do not arrive: %s", r.Text)
		case r.State != pathcheck.Delivered: // load balancers may check from other addresses
			add(nodestatus.ReasonForwardRules, "packets may not arrive: %s", r.Text)
		}
	}
	return err
}

// networkState returns how full connection tracking is; nil if the kernel does not show it.
func networkState() *nodestatus.Network {
	tracked, most, err := conntrack.New(conntrack.Config{}).Usage()
	if err != nil || most == 0 {
		return nil
	}
	return &nodestatus.Network{Tracked: int(tracked), TrackedMax: int(most)}
}

// healthPorts returns the health check ports that load balancers use: a Service's if one has it, and
// if any Service is balanced, the proxy's own.
func (p *proxy) healthPorts(balanced bool) (ports []uint16) {
	if port := p.checks.Port(); port != 0 {
		ports, balanced = append(ports, port), true
	}
	own, err := netip.ParseAddrPort(p.config.Proxy.HealthzBindAddress)
	if err == nil && balanced && !own.Addr().IsLoopback() {
		ports = append(ports, own.Port())
	}
	return ports
}
