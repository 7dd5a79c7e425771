package takeover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/passivehealth"
)

const checkTimeout = 30 * time.Second

// A view is what checks need to know of the node. To read it takes longer in a larger cluster.
type view struct {
	rules   rules
	refused string // why the kernel refuses too much; empty if it does not
	lost    string // packets that kube-proxy's rules delivered; empty if none are
	// endpoints are the endpoints of the sample, as the kernel has them.
	endpoints map[netip.AddrPort][]netip.AddrPort
}

// read reads a view. While changes do not reach the kernel, only kube-proxy's rules are in it:
// the loop may not answer.
func (t *Takeover) read(ctx context.Context, p Proxy) (v view, err error) {
	if v.rules, err = t.system.find(); err != nil || !p.Healthy() {
		return v, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	t.changes.watch(t.sample)
	s, err := p.Snapshot(ctx)
	if err != nil {
		return v, fmt.Errorf("read what is programmed: %w", err)
	}
	v.refused, v.endpoints = tooManyRefused(s), t.sampleEndpoints(s.Installed)
	if text, err := t.system.lost(s, v.rules); err != nil {
		return v, err
	} else if text != "" {
		v.lost = "packets are lost that kube-proxy's rules delivered: " + text
	}
	return v, nil
}

// whyFailing makes one check and returns why it failed; nil if it did not.
func (t *Takeover) whyFailing(ctx context.Context, p Proxy, v view) *FailedError {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	switch {
	case !p.Healthy() || v.endpoints == nil: // or did not when the view was read
		return &FailedError{Reason: "changes do not reach the kernel"}
	case v.refused != "", v.lost != "":
		return &FailedError{Reason: cmp.Or(v.lost, v.refused)}
	}
	failed := slices.DeleteFunc(t.failing(ctx, v.endpoints), func(f failure) bool { return t.changes.has(f.at.Addr()) })
	if !decisive(failed, t.sample) {
		return nil
	}
	var some []string
	for _, f := range failed[:min(3, len(failed))] {
		some = append(some, fmt.Sprintf("%s at %s (%v)", f.service, f.at, f.err))
	}
	if len(failed) > len(some) {
		some = append(some, "...")
	}
	text := fmt.Sprintf("%d of %d addresses do not answer that did before: ", len(failed), len(t.sample))
	return &FailedError{Reason: text + strings.Join(some, ", "), failed: failed}
}

func tooManyRefused(v sync.Snapshot) string {
	refused, namespaces, ports := 0, map[string]bool{}, 0
	for _, p := range v.Problems {
		if p.Reason == model.ProblemRefused {
			refused++
			namespaces[p.Namespace] = true
		}
	}
	for _, s := range v.Services {
		ports += len(s.Ports)
	}
	if len(namespaces) >= 2 && refused*maxRefusedShare > ports {
		return fmt.Sprintf("the kernel refuses %d of %d Service ports", refused, ports)
	}
	return ""
}

// One author of Services must not be able to return a node. An endpoint may refuse or drop the
// connections that come through its Service, or the first three of them, and answer the others.
// So a failure counts only if the rules can be the reason (see blamesRules), and nothing that
// the author chooses has changed since the endpoints were read (see sample.go). In addition,
// failures of a single namespace count only if nothing else was tried, or if they are
// failures of the API server.

// At most 1/maxRefusedShare of the Service ports may be refused.
const maxRefusedShare = 20

var kubernetes = model.ServiceName{Namespace: "default", Name: "kubernetes"}

// blamesRules reports whether rules can be the reason for a failed connection. If it was
// translated to an endpoint that the API lists and passed all rules, the endpoint is. No author of
// Services decides the endpoints of the API server. So a failure to reach
// them may also be due to rules that drop answers.
func blamesRules(s target, o observation, endpoints []netip.AddrPort) bool {
	return s.service.ServiceName == kubernetes || o.known && !slices.Contains(endpoints, o.reply)
}

func decisive(failed []failure, sample []target) bool {
	if len(failed) == 0 {
		return false
	}
	first := failed[0].service.Namespace
	return len(failed) == len(sample) || slices.ContainsFunc(failed, func(f failure) bool {
		return f.service.ServiceName == kubernetes || f.service.Namespace != first
	})
}

// An observation is a connection, and where connection tracking sent it.
type observation struct {
	err error // why it failed
	// known is whether connection tracking could be observed.
	known bool
	// reply is the address of which an answer was expected when the first packet had passed all
	// rules; invalid if it did not pass.
	reply netip.AddrPort
}

func observe(ctx context.Context, to netip.AddrPort) (o observation) {
	var watch *conntrack.Watch
	o.err = dial(ctx, to, net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		e := c.Control(func(fd uintptr) {
			var port uint16
			if port, err = bind(int(fd), to.Addr()); err == nil && watch == nil {
				watch, err = conntrack.NewWatch(model.FamilyOf(to.Addr()), port)
			}
		})
		return errors.Join(passivehealth.HalfOpen("", "", c), e, err)
	}})
	if watch == nil {
		return o
	}
	e, _, err := watch.Find(model.TCP, to)
	o.known, o.reply = errors.Join(err, watch.Close()) == nil, e.Reply
	return o
}

// bind binds a socket to a free port, before it connects, and returns the port.
func bind(fd int, to netip.Addr) (uint16, error) {
	var free unix.Sockaddr = &unix.SockaddrInet4{}
	if to.Is6() {
		free = &unix.SockaddrInet6{}
	}
	if err := unix.Bind(fd, free); err != nil {
		return 0, err
	}
	own, err := unix.Getsockname(fd)
	switch own := own.(type) {
	case *unix.SockaddrInet4:
		return uint16(own.Port), err
	case *unix.SockaddrInet6:
		return uint16(own.Port), err
	}
	return 0, err
}
