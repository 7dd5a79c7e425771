package manifests

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// objects is what manifests say, by the object they say it of.
type objects map[objectKey]object

// folder is what is known of the manifests so far.
type folder struct {
	parser *parser
	files  map[string]*file // by path
	said   objects          // what all events so far add up to; nil before the first
	// clashes are the objects of which two files speak, by the error's text.
	clashes map[string]struct{}
}

// file is what is known of one file.
type file struct {
	sum     [sha256.Size]byte
	objects objects
	err     string // why the file cannot be read; empty if it can
}

// report is what reading found that somebody should know.
type report struct {
	problems []*Error
	skipped  []skippedKinds
}

// skippedKinds are kinds in a file that are not read.
type skippedKinds struct {
	file  string
	kinds []string
}

// errEmpty says why an empty file's objects do not go.
var errEmpty = errors.New("the file is empty, what it said last stays")

func newFolder(node string) *folder {
	return &folder{parser: newParser(node), files: map[string]*file{}}
}

// read brings the folder up to these files, sorted by path, and returns what
// that changed; the first time everything. Files whose bytes are the same are
// not looked at again.
func (f *folder) read(paths []string) ([]sync.Event, report) {
	var r report
	maps.DeleteFunc(f.files, func(path string, _ *file) bool {
		_, found := slices.BinarySearch(paths, path)
		return !found
	})
	for _, path := range paths {
		f.readFile(path, &r)
	}
	now, clashes := f.merge(paths)
	r.problems = append(r.problems, f.newClashes(clashes)...)
	events := changes(f.said, now, f.parser.node)
	f.said = now
	return events, r
}

// readFile reads one file. One that cannot be read keeps its objects.
func (f *folder) readFile(path string, r *report) {
	known := f.files[path]
	if known == nil {
		known = &file{}
		f.files[path] = known
	}
	text, err := readManifest(path)
	if err != nil {
		if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
			err = pathErr.Err
		}
		if known.err != err.Error() {
			r.problems = append(r.problems, &Error{File: path, Err: err})
		}
		known.err = err.Error()
		return
	}
	known.err = ""
	sum := sha256.Sum256(text)
	if known.objects != nil && known.sum == sum {
		return
	}
	known.sum = sum
	if len(text) == 0 && len(known.objects) > 0 {
		// Most likely somebody truncated it to write it anew and is not done.
		r.problems = append(r.problems, &Error{File: path, Warning: true, Err: errEmpty})
		return
	}
	p := f.parser.parse(path, text)
	kept, clashes := keep(known.objects, p)
	known.objects = kept
	r.problems = append(append(r.problems, p.problems...), clashes...)
	if len(p.skipped) > 0 {
		r.skipped = append(r.skipped, skippedKinds{path, p.skipped})
	}
}

// keep is what a file says now. An object that is refused is gone. Only while some
// text cannot be recognised do old objects stand in for those it may be about.
func keep(old objects, p parsed) (objects, []*Error) {
	now := objects{}
	var clashes []*Error
	refused := map[objectKey]bool{}
	for _, o := range p.objects {
		if o.refused {
			refused[o.key] = true
			continue
		}
		if first, ok := now[o.key]; ok {
			clashes = append(clashes, clash(first, o))
			continue
		}
		now[o.key] = o
	}
	if !p.garbled {
		return now, clashes
	}
	for key, o := range old {
		if _, ok := now[key]; !ok && !refused[key] {
			now[key] = o.outdated()
		}
	}
	return now, clashes
}

// outdated is the object as one that may not be current: a Service counts as the
// youngest of all, so that it holds no address against one of an intact file.
func (o object) outdated() object {
	if s, ok := o.value.(*model.Service); ok && s.Created != math.MaxInt64 {
		service := *s
		service.Created = math.MaxInt64
		o.value = &service
	}
	return o
}

// merge is what all files say together; of two that speak of the same object,
// the first counts.
func (f *folder) merge(paths []string) (objects, []*Error) {
	all := objects{}
	var clashes []*Error
	for _, path := range paths {
		for key, o := range f.files[path].objects {
			if first, ok := all[key]; ok {
				clashes = append(clashes, clash(first, o))
				continue
			}
			all[key] = o
		}
	}
	return all, clashes
}

func clash(first, second object) *Error {
	return &Error{
		File: second.file, Document: second.document, Object: second.key.String(),
		Err: fmt.Errorf("not used: %s, document %d, describes it already", first.file, first.document),
	}
}

// newClashes are those that there were not the last time, in a fixed order.
func (f *folder) newClashes(clashes []*Error) []*Error {
	old := f.clashes
	f.clashes = map[string]struct{}{}
	var fresh []*Error
	for _, c := range clashes {
		text := c.Error()
		if _, known := old[text]; !known {
			fresh = append(fresh, c)
		}
		f.clashes[text] = struct{}{}
	}
	slices.SortFunc(fresh, func(a, b *Error) int { return strings.Compare(a.Error(), b.Error()) })
	return fresh
}
