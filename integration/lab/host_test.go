package lab_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

func TestDoRunsInTheNamespaceAndReturns(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 1})
	home := threads(t)
	var inner, outer string
	err := l.Node.Do(func() error {
		outer = namespace(t)
		return l.Pods[0].Do(func() error { inner = namespace(t); return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	if inner == outer || inner == home || outer == home {
		t.Errorf("home %s, node %s, pod %s", home, outer, inner)
	}
	if now := threads(t); now != home {
		t.Errorf("threads were in %s and are in %s", home, now)
	}
}

func TestDoReturnsTheErrorAndSurvivesGoexit(t *testing.T) {
	l := labtest.New(t, lab.Options{})
	home := threads(t)
	want := errors.New("mine")
	if err := l.Node.Do(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
	if err := l.Node.Do(func() error { runtime.Goexit(); return nil }); err == nil {
		t.Error("no error from a function that did not return")
	}
	if now := threads(t); now != home {
		t.Errorf("threads were in %s and are in %s", home, now)
	}
}

// TestDoDiscardsThreadsThatCannotReturn moves the thread to another user namespace,
// from which it must not enter the process's own network namespace.
func TestDoDiscardsThreadsThatCannotReturn(t *testing.T) {
	l := labtest.New(t, lab.Options{})
	home := threads(t)
	for range 10 {
		err := l.Node.Do(func() error { return dropPrivileges() })
		if err == nil {
			t.Fatal("came back without the privilege to")
		}
	}
	deadline := time.Now().Add(patience)
	for threads(t) != home && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if now := threads(t); now != home {
		t.Errorf("threads were in %s and are in %s", home, now)
	}
}

// namespace returns the identity of the calling thread's network namespace.
func namespace(t *testing.T) string {
	s, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Error(err)
	}
	return s
}

func TestCommandRunsInTheNamespace(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 1})
	var want string
	if err := l.Pods[0].Do(func() error { want = namespace(t); return nil }); err != nil {
		t.Fatal(err)
	}
	out, err := l.Pods[0].Command(t.Context(), "readlink", "/proc/self/ns/net").Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if err := l.Pods[0].Command(t.Context(), "false").Run(); err == nil {
		t.Error("no error from false")
	}
	if err := l.Pods[0].Command(t.Context(), "no such program").Run(); err == nil {
		t.Error("no error without a program")
	}
}

func TestCloseEndsCommands(t *testing.T) {
	l := labtest.New(t, lab.Options{})
	cmd := l.Outside.Command(context.Background(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("ended by itself")
	}
}

func TestNamedNamespacesAreTheHosts(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 1, Names: names})
	for _, h := range l.Hosts() {
		if want := fmt.Sprintf("%s-%d-%s", names, os.Getpid(), h.Name); h.Namespace != want {
			t.Errorf("namespace %q, want %q", h.Namespace, want)
		}
		named, err := netns.GetFromName(h.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		var own netns.NsHandle
		if err := h.Do(func() (err error) { own, err = netns.Get(); return err }); err != nil {
			t.Fatal(err)
		}
		if !named.Equal(own) {
			t.Errorf("%s is not %s", h.Namespace, h)
		}
		if err := errors.Join(named.Close(), own.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPodsCanBeAddedAndClosed(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 1})
	pod, err := l.Node.AddPod()
	if err != nil {
		t.Fatal(err)
	}
	serveAll(t, pod.Host)
	for round := range 2 {
		for _, f := range model.Families {
			a := must(t, l.Pods[0].Host, model.UDP, pod.AddrPort(f, port), silence)
			if (a.Outcome == lab.Answered) != (round == 0) {
				t.Errorf("round %d: %s", round, a)
			}
		}
		if err := pod.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if next, err := l.Node.AddPod(); err != nil || next.Name != "pod-3" {
		t.Errorf("next pod: %v, %v", next, err)
	}
}

func TestExtraAddressAndRoute(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 1})
	serveAll(t, l.Pods[0].Host)
	extra := [2]netip.Addr{netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("2001:db8:7::7")}
	for _, a := range extra {
		if err := l.Outside.AddAddress(a); err != nil {
			t.Fatal(err)
		}
		route := netip.PrefixFrom(a, a.BitLen())
		if err := l.Node.AddRoute(route, l.Outside.Addr(model.FamilyOf(a))); err != nil {
			t.Fatal(err)
		}
	}
	forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
		from := netip.AddrPortFrom(extra[f], 4321)
		for range 2 { // the port is free again immediately
			a, err := l.Outside.AskFrom(p, from, l.Pods[0].AddrPort(f, port), patience)
			if err != nil || a.Outcome != lab.Answered || a.Seen != from || a.Local != from {
				t.Errorf("%s from %s, %v", a, a.Local, err)
			}
		}
	})
}

func TestWeb(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 1})
	if _, err := l.Pods[0].ServeWeb(80); err != nil {
		t.Fatal(err)
	}
	for _, f := range model.Families {
		body, err := l.Outside.Get("http://"+l.Pods[0].AddrPort(f, 80).String(), patience)
		if err != nil || body != "Hi from pod-1\n" {
			t.Errorf("%q, %v", body, err)
		}
	}
}
