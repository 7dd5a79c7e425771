// Package nodes has what a command reads: this node by its status socket, or the nodes of a cluster
// by exec through the API server. A command is written once, for both.
//
//	nodestatus/client, this node   --+
//	                                 +--> Nodes --Find--> List --Each, Answers--> the command
//	cmd/kubectl-vmap/cluster, many --+           Document            bounded
package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
)

// Node is a node with its pod of kube-vmap. This node has no name and no pod: its document has the
// name.
type Node struct {
	Name           string
	Pod, Namespace string
	// Missing reports whether no container of kube-vmap runs there. Why is the reason, or
	// that the pod is not ready.
	Missing bool
	Why     string
	// Absent reports whether the node has no pod of kube-vmap, as before it is moved: no
	// problem, unless it was chosen by its name.
	Absent bool
}

// A List has the nodes that a command reads.
type List struct {
	Nodes []Node
	// Chosen reports whether the user has chosen them. Otherwise they are all there are.
	Chosen bool
	// Limit is how many nodes are read at a time.
	Limit int
}

// Nodes are those that a command may read.
type Nodes interface {
	Flags
	// Find returns those that the flags choose.
	Find(ctx context.Context) (List, error)
	// Document returns the status of a node.
	Document(ctx context.Context, n Node, q nodestatus.Query) (*nodestatus.Document, error)
}

// Flags are those with which a command chooses nodes and the namespace of Services.
type Flags interface {
	AddFlags(cmd *cobra.Command)
	// Namespace returns the namespace that the user gave, if any, and the one that counts without it.
	Namespace() (given, current string, err error)
}

// Each calls do for every node with a running kube-vmap, for a limited number at a time, and
// done for every node as its answer comes, one at a time. done gets the answer and the error
// of do, or a [*MissingError]. A canceled context ends it early: done gets that error for the
// rest.
func Each[T any](
	ctx context.Context, list List, do func(context.Context, Node) (T, error), done func(Node, T, error),
) {
	var mu sync.Mutex
	finish := func(n Node, answer T, err error) {
		mu.Lock()
		defer mu.Unlock()
		done(n, answer, err)
	}
	var group errgroup.Group
	group.SetLimit(list.Limit)
	for _, n := range list.Nodes {
		var none T
		switch {
		case ctx.Err() != nil:
			finish(n, none, ctx.Err())
			continue
		case n.Missing:
			finish(n, none, &MissingError{n.Why})
			continue
		}
		group.Go(func() error {
			answer, err := do(ctx, n)
			finish(n, answer, err)
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
}

// Answers is [Each] for answers without errors, which are failures, for [Failures.Err]. An error of
// answered ends it.
func Answers[T any](
	ctx context.Context, list List, do func(context.Context, Node) (T, error), answered func(Node, T) error,
) (f Failures, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	Each(ctx, list, do, func(n Node, answer T, failure error) {
		if err != nil {
			return
		}
		if f.Add(n, failure); failure == nil {
			if err = answered(n, answer); err != nil {
				stop()
			}
		}
	})
	return f, err
}

// ReadyFirst sorts nodes whose pods are ready before the others.
func ReadyFirst(list []Node) {
	slices.SortStableFunc(list, func(a, b Node) int { return min(len(a.Why), 1) - min(len(b.Why), 1) })
}

// ExitError is the error of a command that ended with another exit code than 0.
type ExitError struct {
	Code   int
	Stderr string // what it printed there
}

// Error implements error.
func (e *ExitError) Error() string {
	if text := strings.TrimPrefix(strings.TrimSpace(e.Stderr), "kube-vmap: "); text != "" {
		return Message(text)
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// Unknown reports whether kube-vmap does not know the command or a flag of it.
func (e *ExitError) Unknown() bool {
	return slices.ContainsFunc([]string{"unknown command", "unknown flag", "unknown shorthand flag"},
		func(text string) bool {
			return strings.Contains(e.Stderr, text)
		})
}

// MissingError is the error of a node without a running kube-vmap.
type MissingError struct{ Why string }

// Error implements error.
func (e *MissingError) Error() string { return e.Why }

// VersionError is the error of a node whose kube-vmap is too old for a command.
type VersionError struct {
	Version string // empty if not known
	Command string
}

// Error implements error.
func (e *VersionError) Error() string {
	runs := "runs another version of kube-vmap"
	if e.Version != "" {
		runs = "runs kube-vmap " + e.Version
	}
	return fmt.Sprintf("%s, which has no %q", runs, "kube-vmap "+e.Command)
}

// ErrNoPermission is wrapped by errors about a missing permission.
var ErrNoPermission = errors.New("no permission")

// Failures are the nodes that did not answer, by error.
type Failures struct {
	asked, failed int
	refused       int      // that answered with an error
	errors        []string // in the order of their first nodes
	nodes         map[string][]string
	absent        []string
}

// Add counts a node; err is nil if it answered. It can be called in done of [Each].
func (f *Failures) Add(n Node, err error) {
	if n.Absent {
		f.absent = append(f.absent, n.Name)
		return
	}
	if f.asked++; err == nil {
		return
	}
	f.failed++
	if exit := (*ExitError)(nil); errors.As(err, &exit) {
		f.refused++
	}
	text := output.CleanLine(err.Error())
	if f.nodes == nil {
		f.nodes = map[string][]string{}
	}
	if f.nodes[text] == nil {
		f.errors = append(f.errors, text)
	}
	f.nodes[text] = append(f.nodes[text], n.Name)
}

// Count returns the number of nodes that did not answer.
func (f *Failures) Count() int { return f.failed }

// Answered returns the number of nodes that answered.
func (f *Failures) Answered() int { return f.asked - f.failed }

// Err prints a line for each error with its nodes, and returns an error that counts them;
// nil if all answered. If all answered with the same error, that is the error.
func (f *Failures) Err(stderr io.Writer) error {
	if text := AbsentText(f.absent); text != "" {
		_, _ = fmt.Fprintln(stderr, text)
	}
	if f.refused > 0 && f.refused == f.asked && len(f.errors) == 1 {
		return errors.New(f.errors[0])
	}
	for _, text := range f.errors {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", Names(f.nodes[text]), text)
	}
	switch silent := f.failed - f.refused; {
	case f.failed == 0:
		return nil
	case silent == 0:
		return fmt.Errorf("%d of %d nodes answered with an error", f.refused, f.asked)
	case f.refused == 0:
		return fmt.Errorf("%d of %d nodes did not answer", silent, f.asked)
	default:
		return fmt.Errorf("%d of %d nodes did not answer, and %d answered with an error", silent, f.asked, f.refused)
	}
}

// AbsentText returns a line about nodes without a pod of kube-vmap; empty if there are none.
func AbsentText(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%s without kube-vmap: %s", nodestatus.Plural(len(names), "node"), Names(names))
}

// maxNames is how many nodes are named in a line.
const maxNames = 5

// Names returns names of nodes for a line of text, of many the first ones.
func Names(list []string) string { return nodestatus.JoinFirst(list, len(list), maxNames) }

// maxMessage is how much of an error of a node is shown, in bytes.
const maxMessage = 4 << 10

// Message returns a text of a node in a line of limited length.
func Message(text string) string {
	if len(text) > maxMessage {
		text = text[:maxMessage/2] + " ... " + text[len(text)-maxMessage/2:]
	}
	return output.CleanLine(text)
}
