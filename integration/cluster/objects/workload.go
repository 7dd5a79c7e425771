package objects

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// Workload is the Pods of an app at some of its places: what a Deployment would
// be. Its methods must not be called at the same time.
type Workload struct {
	// App is what a Service of this name selects.
	App string

	ns      *Namespace
	free    []Place
	pods    []placed
	created int
}

type placed struct {
	name string
	at   Place
}

// ErrNoPlace says that a workload has no place left for a Pod.
var ErrNoPlace = errors.New("no place left")

// NewWorkload makes a workload without Pods. As many Pods as there are places can
// run at the same time; one more place than that lets it roll.
func (n *Namespace) NewWorkload(app string, places ...Place) *Workload {
	return &Workload{App: app, ns: n, free: places}
}

// Len is the number of Pods.
func (w *Workload) Len() int { return len(w.pods) }

// Places are those of the Pods.
func (w *Workload) Places() []Place {
	places := make([]Place, len(w.pods))
	for i, p := range w.pods {
		places[i] = p.at
	}
	return places
}

// Scale makes or removes Pods until there are n. Of those that go, the oldest go
// first, and at once.
func (w *Workload) Scale(ctx context.Context, n int) error {
	var group errgroup.Group
	group.SetLimit(parallel)
	for len(w.pods) > n {
		p := w.pods[0]
		w.pods, w.free = w.pods[1:], append(w.free, p.at)
		group.Go(func() error { return w.ns.DeletePod(ctx, p.name) })
	}
	for len(w.pods) < n {
		p, err := w.next()
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		w.pods = append(w.pods, p)
		group.Go(func() error {
			_, err := w.ns.CreatePod(ctx, p.name, w.App, p.at)
			return err
		})
	}
	return group.Wait()
}

// Roll replaces every Pod by a new one, one after the other: a new one is ready
// before an old one goes.
func (w *Workload) Roll(ctx context.Context) error {
	for range len(w.pods) {
		if err := w.RollOne(ctx); err != nil {
			return err
		}
	}
	return nil
}

// RollOne replaces the oldest Pod.
func (w *Workload) RollOne(ctx context.Context) error {
	p, err := w.next()
	if err != nil {
		return err
	}
	if _, err := w.ns.CreatePod(ctx, p.name, w.App, p.at); err != nil {
		return err
	}
	old := w.pods[0]
	w.pods, w.free = append(w.pods[1:], p), append(w.free, old.at)
	return w.ns.DeletePod(ctx, old.name)
}

// next takes the place that has been free for longest.
func (w *Workload) next() (placed, error) {
	if len(w.free) == 0 {
		return placed{}, fmt.Errorf("one more Pod of %s/%s: %w", w.ns.Name, w.App, ErrNoPlace)
	}
	w.created++
	p := placed{fmt.Sprintf("%s-%d", w.App, w.created), w.free[0]}
	w.free = w.free[1:]
	return p, nil
}
