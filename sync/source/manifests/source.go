// Package manifests reads Kubernetes manifests, YAML or JSON, from a folder or a
// single file, and follows their changes.
//
//	folder --> files --> YAML documents --> objects --> package convert --> model values
//	   |      listing       documents       parser                              |
//	   +-- every 250 ms: changed?                                 changes: []sync.Event
//
// It reads Services, EndpointSlices, ServiceCIDRs and the proxy's own Node, alone or
// in lists, and skips other kinds. In a folder it reads the files *.yaml, *.yml and
// *.json, but no dotfiles and nothing in subfolders. If several documents describe
// one object, the first in the order of file names counts.
//
// An object is what its document says now, or removed if that cannot be used. Only while
// text cannot be recognised at all, or a file is empty, as files are before they are
// written, do the objects stay that the file may contain. Such Services count as the
// youngest, and hold no address against another one. If the folder itself, or the single
// file, disappears, everything stays, and the source waits for it to return.
package manifests

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"kube-vmap/sync"
)

// A Source reads the manifests of a folder or of a single file, and follows their
// changes. It implements [sync.Source].
type Source struct {
	path string
	node string
	log  *slog.Logger
	sent problems // as of the last events
}

// New returns a source of the manifests at path, a folder or a file, for the node of
// the given name. Warnings about manifests are logged, once for each content.
func New(path, node string, log *slog.Logger) *Source {
	return &Source{path: path, node: node, log: log}
}

// String returns "manifests" and the path.
func (m *Source) String() string { return "manifests " + m.path }

// Load reads the manifests at path once, for the node of the given name, and returns a
// complete first burst. The errors are of type *[Error]; but if path cannot be read at
// all, Load returns only that error and no events.
func Load(path, node string) ([]sync.Event, []error) {
	found, err := list(path)
	if err != nil {
		return nil, []error{fmt.Errorf("read manifests: %w", err)}
	}
	events, report := newFolder(node).read(slices.Sorted(maps.Keys(found)))
	var errs []error
	for _, p := range report.problems {
		errs = append(errs, p)
	}
	return events, errs
}

const (
	// pollPeriod is how often to look for changes. Notifications of the kernel would be sooner, but
	// network file systems send none, and links and mounts in the path need watches of their own.
	pollPeriod = 250 * time.Millisecond
	// pollRest is how many times longer the pause is than the look before it.
	pollRest = 50
	// debounce is how long files must not change before they are read: editors, and copies of
	// several files, make many changes that belong together. maxDebounce is the longest wait if they
	// change all the time.
	debounce, maxDebounce = 50 * time.Millisecond, time.Second
	// unsure is how old a change must be for the next one to have another time, whatever the
	// resolution of the file system's clock. Files that changed more recently are read at every
	// look.
	unsure = 3 * time.Second
	// firstScanGrace is how long the first burst waits for a file that cannot be parsed. It may be
	// half-written, and without its objects the first burst would remove what an earlier process
	// installed.
	firstScanGrace = time.Second
)

// Run implements [sync.Source]. It returns an error if path cannot be read at first. Later it
// waits for path to return.
func (m *Source) Run(ctx context.Context, out chan<- []sync.Event) error {
	f, read := newFolder(m.node), time.Now()
	found, err := list(m.path)
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	events, unparsed := m.read(f, found)
	if unparsed && sync.Sleep(ctx, firstScanGrace) {
		if again, err := list(m.path); err == nil {
			more, _ := m.read(f, again)
			events = append(events, more...)
		}
	}
	sync.Send(ctx, out, events)
	missing, waited := false, time.Duration(0)
	for rest := pollPeriod; sync.Sleep(ctx, rest); {
		start := time.Now()
		now, err := list(m.path)
		rest = max(pollPeriod, pollRest*time.Since(start))
		switch {
		case err != nil && !missing:
			m.log.Error("manifests missing, keeping their objects", "path", m.path, "err", err)
		case err == nil && missing:
			m.log.Info("manifests available again", "path", m.path)
		}
		missing = err != nil
		switch {
		case missing || now.equal(found) && !now.youngerThan(unsure+time.Since(read)):
		case now.youngerThan(debounce) && waited < maxDebounce:
			rest, waited = debounce, waited+debounce
		default:
			found, waited, read = now, 0, start
			if events, _ := m.read(f, found); len(events) > 0 {
				sync.Send(ctx, out, events)
			}
		}
	}
	return nil
}

// read reads files, and logs warnings. It reports whether some text could not be parsed.
func (m *Source) read(f *folder, found listing) (events []sync.Event, unparsed bool) {
	events, report := f.read(slices.Sorted(maps.Keys(found)))
	m.log.Debug("manifests read", "path", m.path, "files", len(found), "events", len(events))
	m.logReport(report)
	broken := problems{}
	broken.add(report.problems)
	events = append(events, broken.changes(m.sent)...)
	m.sent = broken
	return events, slices.ContainsFunc(report.problems, func(p *Error) bool { return p.Object.Name == "" && !p.Warning })
}

func (m *Source) logReport(r report) {
	for _, p := range r.problems {
		if p.Warning { // the loop reports errors
			m.log.Warn("manifest warning", "file", p.File, "document", p.Document, "err", p.about())
		}
	}
	for _, s := range r.skipped {
		m.log.Info("unsupported kinds skipped", "file", s.file, "kinds", strings.Join(s.kinds, ", "))
	}
}

// An Error is a problem with a manifest and its place. The rest of the file is used nevertheless.
type Error struct {
	// File is the path of the file as it was read.
	File string
	// Document is the number of the YAML document in the file, from 1; zero if
	// it concerns the whole file. Empty documents do not count.
	Document int
	// Object is the object that it is about; without a name if that is not known.
	Object sync.Object
	// Warning reports that the object is valid but suspicious: it has an unknown field,
	// which the API server also only warns about, or cannot be served.
	Warning bool
	// Err names the line or the field. It is a *field.Error if the object is well formed but
	// its content is invalid.
	Err error
}

// Error returns the place, then the error itself.
func (e *Error) Error() string {
	place := printable(e.File)
	if e.Document > 0 {
		place += fmt.Sprintf(": document %d", e.Document)
	}
	return place + ": " + e.about()
}

// about returns the object, if it is known, then the error itself.
func (e *Error) about() string {
	if e.Object.Name == "" {
		return e.Err.Error()
	}
	return printable(e.Object.String()) + ": " + e.Err.Error()
}

// printable quotes a name that was not validated if it has characters that a terminal
// would interpret.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// Unwrap returns the error without the place.
func (e *Error) Unwrap() error { return e.Err }
