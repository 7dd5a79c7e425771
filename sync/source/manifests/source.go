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
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"kube-vmap/model"
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

// changes returns the events for objects that were read again or are no longer there, in a
// fixed order: the node, the ServiceCIDRs, then objects by kind and name. If before is
// nil, no events were sent yet, and the node is always among them.
func changes(before, now objects, node string) []sync.Event {
	var out []sync.Event
	if n := now.node(node); before == nil || n != before.node(node) {
		out = append(out, n)
	}
	if cidrs := now.serviceCIDRs(); !slices.Equal(cidrs, before.serviceCIDRs()) {
		out = append(out, sync.SetServiceCIDRs{CIDRs: cidrs})
	}
	for _, key := range changedKeys(before, now) {
		if event := eventFor(key, now[key].value); event != nil {
			out = append(out, event)
		}
	}
	return out
}

func changedKeys(before, now objects) []sync.Object {
	var keys []sync.Object
	for key, o := range now {
		// Objects of a file that was not read again are the same pointers.
		if before[key].value != o.value {
			keys = append(keys, key)
		}
	}
	for key, o := range before {
		if _, ok := now[key]; !ok && o.value != nil {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, compareObjects)
	return keys
}

func compareObjects(a, b sync.Object) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// eventFor returns the event for a Service or EndpointSlice that has this value now; nil
// means deleted. It returns nil for other kinds.
func eventFor(key sync.Object, value any) sync.Event {
	switch v := value.(type) {
	case *model.Service:
		return sync.SetService{Service: *v}
	case *model.EndpointSlice:
		return sync.SetSlice{Slice: *v}
	}
	switch key.Kind {
	case "Service":
		return sync.DeleteService{Name: model.ServiceName{Namespace: key.Namespace, Name: key.Name}}
	case "EndpointSlice":
		return sync.DeleteSlice{Name: model.EndpointSliceName{Namespace: key.Namespace, Name: key.Name}}
	}
	return nil
}

// node returns the proxy's node, which has only its name if the object is missing.
func (o objects) node(name string) sync.SetNode {
	if n, ok := o[sync.Object{Kind: "Node", Name: name}].value.(*sync.SetNode); ok {
		return *n
	}
	return sync.SetNode{Node: model.Node{Name: name}}
}

// serviceCIDRs returns the prefixes of all ServiceCIDRs, sorted, each once.
func (o objects) serviceCIDRs() []netip.Prefix {
	var out []netip.Prefix
	for _, object := range o {
		if c, ok := object.value.(*serviceCIDR); ok {
			out = append(out, c.ranges...)
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

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
