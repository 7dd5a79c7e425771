package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
)

// What a running process says of itself on the status socket, beside its state.
const (
	pathRules   = "/rules"   // the rule set that it wants, as nft text
	pathKernel  = "/kernel"  // what the kernel holds, in the same form
	pathDrift   = "/drift"   // what the kernel holds otherwise; empty if nothing
	pathConfig  = "/config"  // the configuration in use, as a file
	pathRecent  = "/recent"  // the last warnings and errors of its log
	pathMetrics = "/metrics" // as on the metrics server
)

// inspected adds what a process says of itself to what a server serves.
func (p *proxy) inspected(mux *http.ServeMux, loop *sync.Loop, metrics prometheus.Gatherer) {
	turn := make(chan struct{}, 1)
	text := func(path string, write func(context.Context, io.Writer) error) {
		mux.HandleFunc("GET "+path, inTurn(turn, write))
	}
	text(pathRules, func(ctx context.Context, w io.Writer) error {
		rules, _, err := standing(ctx, loop)
		if err != nil {
			return err
		}
		return rules.Render(w)
	})
	text(pathDrift, func(ctx context.Context, w io.Writer) error {
		return withKernel(func(k *kernel.Kernel) error { return drift(ctx, loop, k, w) })
	})
	text(pathKernel, func(ctx context.Context, w io.Writer) error {
		rules, _, err := standing(ctx, loop)
		if err != nil {
			return err
		}
		return withKernel(func(k *kernel.Kernel) error { return readKernel(k, rules.Config(), w) })
	})
	text(pathConfig, func(_ context.Context, w io.Writer) error { return p.config.Write(w) })
	text(pathRecent, func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, p.recent.Text())
		return err
	})
	mux.Handle("GET "+pathMetrics, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
}

// inTurn serves a text while it is written, one of all that have the same turn at a
// time: of a big cluster each takes hundreds of megabytes. An error is told as long as
// nothing is sent; then the connection is cut, so that a part is not taken for all.
func inTurn(turn chan struct{}, write func(context.Context, io.Writer) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		out := &begun{ResponseWriter: w, control: http.NewResponseController(w)}
		_ = out.control.SetWriteDeadline(time.Time{}) // the server's is from the question on, and would count the wait
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-r.Context().Done():
			http.Error(w, "wait for others who ask: "+r.Context().Err().Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		switch err := write(r.Context(), out); {
		case err != nil && out.any:
			panic(http.ErrAbortHandler) // which net/http has for this
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}

// begun is an answer that knows whether any of it is sent.
type begun struct {
	http.ResponseWriter
	control *http.ResponseController
	any     bool
}

// takeTime is how long a client may take for an answer, once that begins.
const takeTime = 30 * time.Second

// Write implements [io.Writer].
func (b *begun) Write(p []byte) (int, error) {
	if !b.any {
		b.any = true
		_ = b.control.SetWriteDeadline(time.Now().Add(takeTime))
	}
	return b.ResponseWriter.Write(p)
}

// errNothing is that there is no state to compare with or to print.
var errNothing = errors.New("nothing stands yet; the last lines of the log, which kube-vmap bundle has, say why")

// standing is the rule set that stands.
func standing(ctx context.Context, loop *sync.Loop) (*nft.Ruleset, int, error) {
	rules, version, err := loop.Ruleset(ctx)
	if err == nil && rules == nil {
		err = errNothing
	}
	return rules, version, err
}

// drift writes what the kernel holds that is not as wanted. What the kernel takes
// between the look at the state and the reading would look like a difference, so it
// is made sure that nothing was.
func drift(ctx context.Context, loop *sync.Loop, k *kernel.Kernel, w io.Writer) error {
	for range driftTries {
		rules, before, err := standing(ctx, loop)
		if err != nil {
			return err
		}
		have, err := k.Read()
		if err != nil {
			return fmt.Errorf("read the kernel: %w", err)
		}
		if _, after, err := standing(ctx, loop); err != nil {
			return err
		} else if before == after {
			return rules.Repair(have).Differences(w)
		}
	}
	return fmt.Errorf("the state changed during each of %d readings of the kernel; try again", driftTries)
}

// driftTries is how often the kernel is read again because the state changed
// meanwhile.
const driftTries = 10

// readKernel writes what the kernel holds.
func readKernel(k *kernel.Kernel, rules nft.Config, w io.Writer) error {
	have, err := k.Read()
	if err != nil {
		return fmt.Errorf("read the kernel: %w", err)
	}
	return have.Render(w, rules)
}
