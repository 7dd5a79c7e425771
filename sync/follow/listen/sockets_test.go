package listen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	stdsync "sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/listen/listentest"
)

// A rig has Sockets with a recorder and a log.
type rig struct {
	*Sockets
	recorder listentest.Recorder
	log      listentest.LogBuffer
}

func newRig() *rig {
	r := &rig{}
	r.Sockets = New(Config{Name: "test server", Reason: "Failed", Field: "spec.port", Recorder: &r.recorder, Max: 100, Log: r.log.Log()})
	return r
}

// run runs the Sockets with servers that send the Service and the address.
func (r *rig) run(t *testing.T) (stop func()) {
	return listentest.Run(t, func(ctx context.Context) error { return r.Run(ctx, greet) })
}

// quiet fails the test if there was a warning.
func (r *rig) quiet(t *testing.T) {
	t.Helper()
	if w := r.recorder.Warnings(); len(w) > 0 || strings.Contains(r.log.String(), "WARN") {
		t.Errorf("events %v, log:\n%s", w, r.log.String())
	}
}

func greet(s Socket, l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(c, "%s on %s", s.Service, s.Addr); err != nil {
			return err
		}
		c.Close()
	}
}

// at returns a Service's socket.
func at(service string, addr netip.Addr, port uint16) Socket {
	return Socket{Service: model.ServiceName{Namespace: "default", Name: service}, Addr: netip.AddrPortFrom(addr, port)}
}

// greets waits until an address serves a socket.
func greets(t *testing.T, addr netip.Addr, s Socket) {
	t.Helper()
	want, got := fmt.Sprintf("%s on %s", s.Service, s.Addr), ""
	where := netip.AddrPortFrom(addr, s.Addr.Port())
	listentest.Eventually(t, want+" at "+where.String(), func() bool {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", where.String())
		if err != nil {
			return false
		}
		defer c.Close()
		b, err := io.ReadAll(c)
		got = string(b)
		return err == nil && got == want
	})
}

func TestUnspecifiedAddressListensInItsFamilyOnly(t *testing.T) {
	unspecified := [...]netip.Addr{model.IPv4: netip.IPv4Unspecified(), model.IPv6: netip.IPv6Unspecified()}
	port := listentest.FreePort(t)
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			r, s := newRig(), at("web", unspecified[f], port)
			stop := r.run(t)
			r.Change(nil, []Socket{s})
			greets(t, listentest.Loopback[f], s)
			if other := netip.AddrPortFrom(listentest.Loopback[1-f], port); listentest.IsOpen(t, other) {
				t.Errorf("%s is open", other)
			}
			stop()
			listentest.WaitClosed(t, netip.AddrPortFrom(listentest.Loopback[f], port))
			r.quiet(t)
		})
	}
	r := newRig()
	r.run(t)
	r.Change(nil, []Socket{at("web", unspecified[0], port), at("web", unspecified[1], port)})
	for _, f := range model.Families {
		greets(t, listentest.Loopback[f], at("web", unspecified[f], port))
	}
	r.quiet(t)
}

func TestListenOnFutureAddress(t *testing.T) {
	r := newRig()
	r.run(t)
	port := listentest.FreePort(t)
	existing := at("web", listentest.Loopback[0], port)
	r.Change(nil, []Socket{
		at("web", netip.MustParseAddr("192.0.2.1"), port), at("web", netip.MustParseAddr("2001:db8::1"), port),
	})
	r.Change(nil, []Socket{existing})
	greets(t, existing.Addr.Addr(), existing)
	r.quiet(t)
}

func TestPortMovesBetweenServices(t *testing.T) {
	r := newRig()
	r.run(t)
	port := listentest.FreePort(t)
	var now [len(model.Families)][]Socket
	for i := range 20 {
		for _, f := range model.Families {
			next := at(fmt.Sprint("web-", i), listentest.Loopback[f], port)
			r.Change(now[f], []Socket{next})
			greets(t, listentest.Loopback[f], next)
			now[f] = []Socket{next}
		}
	}
	r.quiet(t)
}

func TestClosedAndOpenedSocketStaysOpen(t *testing.T) {
	r := newRig()
	listens := 0
	r.listen = func(ctx context.Context, s Socket) (net.Listener, error) { listens++; return open(ctx, s) }
	stop := r.run(t)
	same := at("web", listentest.Loopback[0], listentest.FreePort(t))
	for range 10 {
		r.Change([]Socket{same}, []Socket{same})
		greets(t, same.Addr.Addr(), same)
	}
	stop()
	if listens != 1 {
		t.Errorf("opened %d times", listens)
	}
}

func TestLastChangeBeforeRunWins(t *testing.T) {
	r := newRig()
	port := listentest.FreePort(t)
	kept, dropped := at("kept", listentest.Loopback[1], port), at("dropped", listentest.Loopback[0], port)
	for range 1000 { // more than any channel holds
		r.Change(nil, []Socket{kept, dropped})
		r.Change([]Socket{kept}, nil)
	}
	r.Change([]Socket{dropped}, []Socket{kept})
	r.run(t)
	greets(t, kept.Addr.Addr(), kept)
	if listentest.IsOpen(t, dropped.Addr) {
		t.Errorf("%s is open", dropped.Addr)
	}
}

func TestPortInUseAffectsNoOther(t *testing.T) {
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			foreign, err := listentest.Listen(t, netip.AddrPortFrom(listentest.Loopback[f], 0))
			if err != nil {
				t.Fatal(err)
			}
			defer foreign.Close()
			r := newRig()
			r.run(t)
			taken := at("taken", listentest.Loopback[f], foreign.Addr().(*net.TCPAddr).AddrPort().Port())
			free := at("free", listentest.Loopback[f], listentest.FreePort(t))
			r.Change(nil, []Socket{taken, free})
			greets(t, free.Addr.Addr(), free)

			listentest.Eventually(t, "an event", func() bool { return len(r.recorder.Warnings()) > 0 })
			w := r.recorder.Warnings()
			want := sync.Object{Kind: "Service", Namespace: "default", Name: "taken"}
			if len(w) != 1 || w[0].Object != want || w[0].Reason != "Failed" {
				t.Fatalf("events: %v", w)
			}
			for _, part := range []string{"test server", taken.Addr.String(), "address already in use"} {
				if !strings.Contains(w[0].Note, part) || !strings.Contains(r.log.String(), part) {
					t.Errorf("%q is not in note %q or log\n%s", part, w[0].Note, r.log.String())
				}
			}
			wantProblem := sync.Problem{
				Object: want, Reason: "Failed", Field: fmt.Sprint("spec.port: ", taken.Addr.Port()), Text: w[0].Note,
			}
			if got := r.Problems(); len(got) != 1 || got[0] != wantProblem {
				t.Errorf("problems %+v, want %+v", got, wantProblem)
			}
			foreign.Close()
			greets(t, taken.Addr.Addr(), taken)
			if got := r.Problems(); len(got) > 0 {
				t.Errorf("problems of an open socket: %+v", got)
			}
			if w := r.recorder.Warnings(); len(w) != 1 {
				t.Errorf("events: %v", w)
			}
		})
	}
}

// errBusy is the kernel's error for a port in use.
var errBusy = os.NewSyscallError("bind", syscall.EADDRINUSE)

// A kernel opens idle sockets or refuses to, in a bubble of synctest. The lock is for the
// race detector, which does not see the order that the passing of time gives.
type kernel struct {
	mu    stdsync.Mutex
	err   error
	tries []time.Time
	last  *idleListener
}

// idleListener is an idle listener.
type idleListener struct {
	stop stdsync.Once
	over chan struct{}
}

func (s *idleListener) Accept() (net.Conn, error) { <-s.over; return nil, net.ErrClosed }
func (s *idleListener) Close() error              { s.stop.Do(func() { close(s.over) }); return nil }
func (s *idleListener) Addr() net.Addr            { return &net.TCPAddr{} }

func (k *kernel) listen(context.Context, Socket) (net.Listener, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tries = append(k.tries, time.Now())
	if k.err != nil {
		return nil, k.err
	}
	k.last = &idleListener{over: make(chan struct{})}
	return k.last, nil
}

// refuse makes the kernel refuse to listen, or ends that with nil.
func (k *kernel) refuse(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// tried returns the times of all attempts since the first, and the last listener.
func (k *kernel) tried() (after []time.Duration, last *idleListener) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, at := range k.tries {
		after = append(after, at.Sub(k.tries[0]))
	}
	return after, k.last
}

// inBubble runs a test in a bubble of synctest, with one socket desired.
func inBubble(t *testing.T, serve Serve, test func(*rig, *kernel, []Socket)) {
	synctest.Test(t, func(t *testing.T) {
		r, k := newRig(), &kernel{}
		r.listen = k.listen
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		k.refuse(errBusy)
		go func() { done <- r.Run(ctx, serve) }()
		s := []Socket{at("web", listentest.Loopback[0], 30080)}
		r.Change(nil, s)
		synctest.Wait()
		test(r, k, s)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestListenBackoff(t *testing.T) {
	inBubble(t, greet, func(r *rig, k *kernel, s []Socket) {
		<-time.After(190 * time.Second)
		r.Change(nil, s) // again, which changes nothing
		synctest.Wait()
		want := "[0s 1s 3s 7s 15s 31s 1m3s 2m3s 3m3s]"
		if got, _ := k.tried(); fmt.Sprint(got) != want {
			t.Errorf("tried after %v, want %v", got, want)
		}
		if w := r.recorder.Warnings(); len(w) != 1 {
			t.Errorf("events: %v", w)
		}
		k.refuse(os.NewSyscallError("bind", syscall.EACCES))
		<-time.After(time.Minute)
		if w := r.recorder.Warnings(); len(w) != 2 || !strings.Contains(w[1].Note, "permission denied") {
			t.Errorf("events: %v", w)
		}
		k.refuse(nil)
		<-time.After(time.Minute)
		if !strings.Contains(r.log.String(), "level=INFO msg=listening") {
			t.Errorf("success not logged:\n%s", r.log.String())
		}
		before, _ := k.tried()
		<-time.After(time.Hour)
		if after, _ := k.tried(); len(after) != len(before) {
			t.Error("an open socket was opened again")
		}
	})
}

func TestFailedServerIsRestarted(t *testing.T) {
	var fail stdsync.Once
	serve := func(_ Socket, l net.Listener) (err error) {
		fail.Do(func() { err = errors.New("accept: too many open files") })
		if err == nil {
			_, err = l.Accept()
		}
		return err
	}
	inBubble(t, serve, func(r *rig, k *kernel, _ []Socket) {
		k.refuse(nil)
		<-time.After(time.Second)
		synctest.Wait()
		_, first := k.tried()
		select {
		case <-first.over:
		default:
			t.Error("its listener is still open")
		}
		<-time.After(time.Hour)
		if tried, last := k.tried(); len(tried) != 3 || last == first {
			t.Errorf("tried after %v", tried)
		}
		if w := r.recorder.Warnings(); len(w) != 2 || !strings.Contains(w[1].Note, "too many open files") {
			t.Errorf("events: %v", w)
		}
	})
}

// TestMissingFamilyIsNotAWarning also has a closed socket, which is not retried.
func TestMissingFamilyIsNotAWarning(t *testing.T) {
	inBubble(t, greet, func(r *rig, k *kernel, s []Socket) {
		r.Change(s, nil)
		<-time.After(time.Hour)
		if tried, _ := k.tried(); len(tried) != 1 {
			t.Errorf("tried a closed socket after %v", tried)
		}
		k.refuse(os.NewSyscallError("socket", syscall.EAFNOSUPPORT))
		before := len(r.recorder.Warnings())
		r.Change(nil, []Socket{at("web", listentest.Loopback[1], 30080)})
		<-time.After(time.Hour)
		if tried, _ := k.tried(); len(tried) < 3 || len(r.recorder.Warnings()) != before {
			t.Errorf("tried after %v, events: %v", tried, r.recorder.Warnings())
		}
	})
}
