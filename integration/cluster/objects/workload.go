package objects

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// Workload is the Pods of an app, each at one of its places, like a Deployment. Its methods
// must not be called concurrently.
type Workload struct {
	// App is the label, and the name of a Service that selects it.
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

// NewWorkload returns a workload without Pods. It can have as many Pods as places; to roll,
// it needs one more place than Pods.
func (n *Namespace) NewWorkload(app string, places ...Place) *Workload {
	return &Workload{App: app, ns: n, free: places}
}

// Scale creates or deletes Pods until there are n. It deletes the oldest ones first,
// without waiting.
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

// Roll replaces every Pod, one after the other, the oldest first: the new one is ready before the old
// one is deleted.
func (w *Workload) Roll(ctx context.Context) error {
	for range len(w.pods) {
		p, err := w.next()
		if err != nil {
			return err
		}
		if _, err := w.ns.CreatePod(ctx, p.name, w.App, p.at); err != nil {
			return err
		}
		old := w.pods[0]
		w.pods, w.free = append(w.pods[1:], p), append(w.free, old.at)
		if err := w.ns.DeletePod(ctx, old.name); err != nil {
			return err
		}
	}
	return nil
}

// next returns the place that has been free for longest.
func (w *Workload) next() (placed, error) {
	if len(w.free) == 0 {
		return placed{}, fmt.Errorf("no place left for one more Pod of %s/%s", w.ns.Name, w.App)
	}
	w.created++
	p := placed{fmt.Sprintf("%s-%d", w.App, w.created), w.free[0]}
	w.free = w.free[1:]
	return p, nil
}
