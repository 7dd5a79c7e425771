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

// String returns "manifests" and the path.
func (m *Source) String() string { return "manifests " + m.path }

// Load reads the manifests at path once, for the node of the given name, and returns a
// complete first burst. The errors are of type *[Error]; but if path cannot be read at
// all, there are no events, and that error is the only one.
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
// at first. Later it waits for path to return.
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
	s := &rescan{path: m.path, log: m.log, backoff: missingBackoff()}
	for s.next(nil); w.wait(ctx, s.delay); s.next(err) {
		if events, _, err = m.scan(f, w); len(events) > 0 {
			send(ctx, out, events)
		}
	}
	return nil
}

// firstScanGrace is how long the first burst waits for a file that cannot be parsed. It
// may be half-written, and without its objects the first burst would remove what an
// earlier process installed.
const firstScanGrace = time.Second

// firstScan reads everything, and once more if a file may be half-written.
func (m *Source) firstScan(ctx context.Context, f *folder, w *watcher) ([]sync.Event, error) {
	events, unparsed, err := m.scan(f, w)
	if !unparsed || err != nil || !w.wait(ctx, firstScanGrace) {
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

// scan reads what has changed, and logs problems. It reports whether some text could not
// be parsed. It watches before it reads, so that no change is missed in between.
func (m *Source) scan(f *folder, w *watcher) (events []sync.Event, unparsed bool, err error) {
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
	m.logReport(report)
	unparsed = slices.ContainsFunc(report.problems, func(p *Error) bool { return p.Object == "" && !p.Warning })
	return events, unparsed, nil
}

func (m *Source) logReport(r report) {
	for _, p := range r.problems {
		log := m.log.With("file", p.File, "document", p.Document)
		if p.Object != "" {
			log = log.With("object", p.Object)
		}
		log = log.With("err", p.Err)
		if p.Warning {
			log.Warn("manifest warning")
		} else {
			log.Error("invalid manifest")
		}
	}
	for _, s := range r.skipped {
		m.log.Info("unsupported kinds skipped", "file", s.file, "kinds", strings.Join(s.kinds, ", "))
	}
}

// rescanInterval is how often the manifests are read without a notification of a
// change: network file systems send none, and a symbolic link in the path may be
// replaced.
const rescanInterval = 30 * time.Second

// rescan decides how long to wait for a notification before the next scan.
type rescan struct {
	path    string
	log     *slog.Logger
	delay   time.Duration
	backoff wait.Backoff
	missing bool
}

// missingBackoff returns the waits between scans while the manifests are missing.
func missingBackoff() wait.Backoff {
	return wait.Backoff{Duration: debounce, Factor: 2, Steps: 10, Cap: 5 * time.Second}
}

// next sets the delay after a scan that ended with err, and logs when the manifests
// disappear and return.
func (s *rescan) next(err error) {
	switch {
	case err != nil && !s.missing:
		s.log.Error("manifests missing, keeping their objects", "path", s.path, "err", err)
		s.missing = true
	case err == nil && s.missing:
		s.log.Info("manifests available again", "path", s.path)
		s.missing, s.backoff = false, missingBackoff()
	}
	s.delay = rescanInterval
	if s.missing {
		s.delay = s.backoff.Step()
	}
}
