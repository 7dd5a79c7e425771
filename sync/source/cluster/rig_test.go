package cluster_test

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/listen/listentest"
	"kube-vmap/sync/source/cluster"
	"kube-vmap/sync/source/cluster/apitest"
)

func TestMain(m *testing.M) {
	// The second handler limits the rate of errors by sleeping, which takes forever
	// with the clock of synctest.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	os.Exit(m.Run())
}

// A rig is a source that reads from a server, in a bubble of synctest, which fails the
// test if a goroutine is left.
type rig struct {
	*testing.T
	*apitest.Server
	source  *cluster.Source
	bursts  chan []sync.Event
	model   *model.ServiceMap // of the events received
	cancel  context.CancelFunc
	done    chan error
	log     *listentest.LogBuffer
	counted [2]int // lines that expectLogs has seen
}

// inBubble runs a subtest in a bubble of synctest.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// started returns a rig whose source has sent its first burst.
func started(t *testing.T) *rig {
	t.Helper()
	r := run(t, filled())
	r.now()
	return r
}

// run starts a source, which must end when the test does. Its bursts are received only
// on request.
func run(t *testing.T, s *apitest.Server, change ...func(*cluster.Config)) *rig {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &rig{
		T: t, Server: s, cancel: cancel, log: &listentest.LogBuffer{},
		bursts: make(chan []sync.Event), done: make(chan error, 1), model: model.NewServiceMap(model.Options{}, model.Node{}),
	}
	c := cluster.Config{Client: clientOf(s.Config()), NodeName: "node-1"}
	for _, f := range change {
		f(&c)
	}
	r.source = cluster.NewSource(c, slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	go func() {
		defer close(r.done)
		r.done <- r.source.Run(ctx, r.bursts)
	}()
	t.Cleanup(r.stop)
	return r
}

func clientOf(config *rest.Config) *cluster.Client {
	c, err := cluster.ClientFor(config)
	if err != nil {
		panic(err)
	}
	return c
}

// stop ends the source and checks that it ends immediately, without an error.
func (r *rig) stop() {
	r.Helper()
	start := time.Now()
	r.cancel()
	if err := <-r.done; err != nil {
		r.Errorf("the source ended with %v", err)
	}
	if took := time.Since(start); took > 0 {
		r.Errorf("the source took %s to end", took)
	}
}

// next returns the changes of the burst that arrives within the time.
func (r *rig) next(within time.Duration) []sync.Event {
	r.Helper()
	changes := r.within(within)
	if changes == nil {
		r.Fatalf("no burst after %s; log:\n%s", within, r.log)
	}
	return changes
}

// within returns the changes of the next burst that has any, or nil if none arrives within the
// time.
func (r *rig) within(d time.Duration) []sync.Event {
	r.Helper()
	for timeout := time.After(d); ; {
		select {
		case events := <-r.bursts:
			if changes := r.changes(events); len(changes) > 0 {
				return changes
			}
		case err := <-r.done:
			r.Fatalf("the source ended with %v", err)
		case <-timeout:
			return nil
		}
	}
}

// changes returns the events that change the model, and those that are not about it.
func (r *rig) changes(events []sync.Event) []sync.Event {
	return slices.DeleteFunc(events, func(e sync.Event) bool {
		switch e := e.(type) {
		case sync.SetService:
			return !r.model.SetService(e.Service)
		case sync.DeleteService:
			return !r.model.DeleteService(e.Name)
		case sync.SetSlice:
			return !r.model.SetSlice(e.Slice)
		case sync.DeleteSlice:
			return !r.model.DeleteSlice(e.Name)
		}
		return false
	})
}

// now returns the changes of the burst that is ready once all goroutines are idle.
func (r *rig) now() []sync.Event {
	r.Helper()
	synctest.Wait()
	select {
	case events := <-r.bursts:
		return r.changes(events)
	default:
		r.Fatalf("no burst; log:\n%s", r.log)
		return nil
	}
}

// quiet checks that nothing changes for that long.
func (r *rig) quiet(d time.Duration) {
	r.Helper()
	if changes := r.within(d); changes != nil {
		r.Fatalf("unexpected burst: %s", lines(changes))
	}
	synctest.Wait()
}

// logged counts the lines of the log that contain the text.
func (r *rig) logged(text string) int {
	n := 0
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// pass lets time pass, whatever is sent.
func (r *rig) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
