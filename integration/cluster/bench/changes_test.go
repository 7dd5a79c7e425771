package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/model"
)

// write is a request to the API server that changes one object. It returns the
// object's new resource version.
type write func(context.Context) (version string, err error)

// replaceEndpoint replaces an endpoint of another Service each time.
func (w *world) replaceEndpoint(_ context.Context, n int) (write, error) {
	const stride = 7919 // a prime, so that neighbours in time are none in any map
	s := w.filling.Slice(n*stride%w.filling.Services, model.IPv4)
	newcomer := netip.AddrFrom4([4]byte{10, 200, byte(n >> 8), byte(n)})
	s.Endpoints[n%len(s.Endpoints)].Addresses = []string{newcomer.String()}
	return func(ctx context.Context) (string, error) {
		s, err := w.ns.UpdateSlice(ctx, s)
		if err != nil {
			return "", err
		}
		return s.ResourceVersion, nil
	}, nil
}

// addService creates the slice of a Service beforehand. The change is to create the Service.
func (w *world) addService(ctx context.Context, n int) (write, error) {
	more := *w.filling
	more.Prefix = "more"
	if _, err := w.ns.CreateSlice(ctx, more.Slice(n, model.IPv4)); err != nil {
		return nil, err
	}
	s := more.Service(n)
	return func(ctx context.Context) (string, error) {
		s, err := w.ns.CreateService(ctx, s)
		if err != nil {
			return "", err
		}
		return s.ResourceVersion, nil
	}, nil
}

// following is how a proxy and informers follow changes.
type following struct {
	name               string
	committed, handled report.Times         // from the request to the commit, and to the informers' handler
	proxyCPU, floorCPU time.Duration        // for one change
	sent               map[string]time.Time // by the resource version that came of it
}

// follow makes n changes, so many a second, beside informers.
func (w *world) follow(
	b *testing.B, proxy *running,
	name string, prepare func(context.Context, int) (write, error), n int, rate float64,
) *following {
	b.Helper()
	changes := make([]write, n)
	for i := range changes {
		var err error
		changes[i], err = prepare(b.Context(), i)
		clustertest.Must(b, err)
	}
	floor := w.informers().start(b)
	f := &following{name: name, sent: map[string]time.Time{}}
	pace := time.Tick(time.Duration(float64(time.Second) / rate))
	<-pace
	proxyCPU, floorCPU := proxy.cpu(b), floor.cpu(b)
	for _, change := range changes {
		f.one(b, w, change)
		<-pace // what a change leads to meanwhile belongs to it
	}
	f.proxyCPU = (proxy.cpu(b) - proxyCPU) / time.Duration(n)
	f.floorCPU = (floor.cpu(b) - floorCPU) / time.Duration(n)
	for _, line := range floor.Log.Find(0, "seen") {
		if began, ok := f.sent[line["version"]]; ok {
			at, err := strconv.ParseInt(line["at"], 10, 64)
			clustertest.Must(b, err)
			f.handled.Add(time.Unix(0, at).Sub(began))
		}
	}
	if len(f.handled) != n {
		b.Fatalf("informers saw %d of %d changes", len(f.handled), n)
	}
	clustertest.Must(b, floor.Stop())
	return f
}

// one makes a change and waits for the commit that it leads to.
func (f *following) one(b *testing.B, w *world, change write) {
	b.Helper()
	before, err := w.kernel.Generation()
	clustertest.Must(b, err)
	group, ctx := errgroup.WithContext(b.Context())
	begin := time.Now()
	group.Go(func() error {
		committed, err := w.awaitCommit(ctx, before)
		f.committed.Add(committed.Sub(begin))
		return err
	})
	group.Go(func() error {
		version, err := change(ctx)
		f.sent[version] = begin
		return err
	})
	clustertest.Must(b, group.Wait())
}

// awaitCommit waits until the kernel has committed something, and returns when.
func (w *world) awaitCommit(ctx context.Context, before uint32) (time.Time, error) {
	for begin := time.Now(); time.Since(begin) < patience && ctx.Err() == nil; {
		now, err := w.kernel.Generation()
		if err != nil || now != before {
			return time.Now(), err
		}
		// Long enough to leave the processor to others, and short compared with what is
		// measured. The runtime's own timers are too coarse for that.
		pause := unix.NsecToTimespec(int64(max(100*time.Microsecond, time.Since(begin)/100)))
		if err := unix.Nanosleep(&pause, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return time.Time{}, fmt.Errorf("wait for a commit: %w", err)
		}
	}
	return time.Time{}, fmt.Errorf("no commit within %s", patience)
}

// line prints the medians, and checks those of the proxy: how much longer than informers it takes,
// because most of the time is the API server's, and its CPU.
func (f *following) line(b *testing.B, most float64, mostCPU time.Duration) {
	b.Helper()
	committed, handled := f.committed.Median(), f.handled.Median()
	report.Line(b, f.name, report.Time("ms", committed, 0), report.Time("ms-informers", handled, 0),
		report.Ratio("x-informers", committed, handled, most),
		report.Time("ms-CPU", f.proxyCPU, mostCPU), report.Time("ms-CPU-informers", f.floorCPU, 0))
}
