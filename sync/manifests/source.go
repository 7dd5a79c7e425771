package manifests

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kube-vmap/sync"
)

// rescanInterval is how often the manifests are read again though nothing was
// seen to change: network file systems tell nothing, and a symbolic link on the
// way to the folder may be turned.
const rescanInterval = 30 * time.Second

// A Source reads the manifests of a folder or of a single file, and follows their
// changes. It implements [sync.Source].
type Source struct {
	path string
	node string
	log  *slog.Logger
}

// New returns a source of the manifests at path, a folder or a file, for the node of
// the given name. Problems with manifests are logged, once for each content.
func New(path, node string, log *slog.Logger) *Source {
	return &Source{path: path, node: node, log: log}
}

// String names the source and where it reads.
func (m *Source) String() string { return "manifests " + m.path }

// Load reads the manifests at path once, for the node of the given name, and
// returns a complete first burst. The errors are of type *[Error], with one
// exception: if path cannot be read at all, there are no events and that error
// is the only one.
func Load(path, node string) ([]sync.Event, []error) {
	found, err := list(path)
	if err != nil {
		return nil, []error{fmt.Errorf("read manifests: %w", err)}
	}
	events, report := newFolder(node).read(found.files)
	var errs []error
	for _, p := range report.problems {
		errs = append(errs, p)
	}
	return events, errs
}

// Run implements [sync.Source]. It returns an error if path cannot be read or watched
// at first; later it waits for it to come back.
func (m *Source) Run(ctx context.Context, out chan<- []sync.Event) error {
	w, err := newWatcher(m.log)
	if err != nil {
		return fmt.Errorf("watch manifests: %w", err)
	}
	defer w.close()
	f := newFolder(m.node)
	events, err := m.firstScan(ctx, f, w)
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	send(ctx, out, events)
	p := &pace{path: m.path, log: m.log, backoff: lostBackoff()}
	for p.next(nil); w.wait(ctx, p.delay); p.next(err) {
		if events, _, err = m.scan(f, w); len(events) > 0 {
			send(ctx, out, events)
		}
	}
	return nil
}

// grace is how long the first burst waits for a file that cannot be made out:
// somebody may be writing it, and what stands from before a restart would go
// with the first burst.
const grace = time.Second

// firstScan reads everything, and once more if a file may be half-written.
func (m *Source) firstScan(ctx context.Context, f *folder, w *watcher) ([]sync.Event, error) {
	events, garbled, err := m.scan(f, w)
	if !garbled || err != nil || !w.wait(ctx, grace) {
		return events, err
	}
	more, _, err := m.scan(f, w)
	return append(events, more...), err
}

// send delivers a burst unless ctx ends first.
func send(ctx context.Context, out chan<- []sync.Event, events []sync.Event) {
	select {
	case out <- events:
	case <-ctx.Done():
	}
}

// scan reads what has changed and reports what is wrong with it; garbled says
// that some text could not be made out. It watches before it reads, so that no
// change falls between the two.
func (m *Source) scan(f *folder, w *watcher) (events []sync.Event, garbled bool, err error) {
	dir, err := folderOf(m.path)
	if err != nil {
		return nil, false, err
	}
	if err := w.add(dir); err != nil {
		return nil, false, err
	}
	found, err := list(m.path)
	if err != nil {
		return nil, false, err
	}
	w.watchOnly(append(found.linked, found.folder))
	events, report := f.read(found.files)
	m.log.Debug("manifests read", "path", m.path, "files", len(found.files), "events", len(events))
	m.report(report)
	garbled = slices.ContainsFunc(report.problems, func(p *Error) bool { return p.Object == "" && !p.Warning })
	return events, garbled, nil
}

// report logs what somebody should know.
func (m *Source) report(r report) {
	for _, p := range r.problems {
		log := m.log.With("file", p.File, "document", p.Document)
		if p.Object != "" {
			log = log.With("object", p.Object)
		}
		log = log.With("error", p.Err)
		if p.Warning {
			log.Warn("doubtful manifest")
		} else {
			log.Error("bad manifest")
		}
	}
	for _, s := range r.skipped {
		m.log.Info("kinds that are not read", "file", s.file, "kinds", strings.Join(s.kinds, ", "))
	}
}

// pace says how long to wait for a change before looking without one.
type pace struct {
	path    string
	log     *slog.Logger
	delay   time.Duration
	backoff wait.Backoff
	lost    bool
}

// lostBackoff is how to look for manifests that are gone.
func lostBackoff() wait.Backoff {
	return wait.Backoff{Duration: debounce, Factor: 2, Steps: 10, Cap: 5 * time.Second}
}

// next sets the delay after a scan that ended with err, and logs when the
// manifests are lost and when they are back.
func (p *pace) next(err error) {
	switch {
	case err != nil && !p.lost:
		p.log.Error("manifests are gone, what they said last stays", "path", p.path, "error", err)
		p.lost = true
	case err == nil && p.lost:
		p.log.Info("manifests are back", "path", p.path)
		p.lost, p.backoff = false, lostBackoff()
	}
	p.delay = rescanInterval
	if p.lost {
		p.delay = p.backoff.Step()
	}
}
