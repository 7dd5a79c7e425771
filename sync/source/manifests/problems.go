package manifests

import (
	"fmt"
	"maps"
	"slices"

	"kube-vmap/sync"
)

// problems are the errors in manifests by the object that they are about, or by the file if that is
// not known.
type problems map[sync.Object]problem

type problem struct {
	first *Error
	more  int
}

// add adds errors in the order of their files and places; it ignores warnings.
func (p problems) add(all []*Error) {
	for _, e := range all {
		key := e.Object
		if key.Name == "" {
			key = sync.Object{Kind: "File", Name: e.File}
		}
		known, ok := p[key]
		switch {
		case e.Warning:
		case ok:
			p[key] = problem{known.first, known.more + 1}
		default:
			p[key] = problem{first: e}
		}
	}
}

// err returns the error for an event, with its place.
func (p problem) err() error {
	err := p.first.Err
	if p.first.Object.Name != "" {
		err = fmt.Errorf("%w (%s, document %d)", err, printable(p.first.File), p.first.Document)
	}
	if p.more > 0 {
		err = fmt.Errorf("%w; %d more", err, p.more)
	}
	return err
}

// changes returns the events for the difference between the problems before and these.
func (p problems) changes(before problems) (out []sync.Event) {
	for _, o := range slices.SortedFunc(maps.Keys(before), compareObjects) {
		if _, ok := p[o]; !ok {
			out = append(out, sync.SetProblem{Object: o})
		}
	}
	for _, o := range slices.SortedFunc(maps.Keys(p), compareObjects) {
		was, ok := before[o]
		if err := p[o].err(); !ok || was.err().Error() != err.Error() {
			out = append(out, sync.SetProblem{Object: o, Err: err})
		}
	}
	return out
}
