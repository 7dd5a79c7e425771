package manifests

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
)

type objects map[sync.Object]object

type folder struct {
	parser  *parser
	files   map[string]*file // by path
	current objects          // the sum of all events so far; nil before the first
}

type file struct {
	sum     [sha256.Size]byte
	objects objects
	errors  []*Error // of its content, without warnings
}

type report struct {
	problems []*Error // all errors, and warnings about what was parsed
	skipped  []skippedKinds
}

type skippedKinds struct {
	file  string
	kinds []string
}

func newFolder(node string) *folder {
	return &folder{parser: newParser(node), files: map[string]*file{}}
}

// read reads these files, sorted by path, and returns the changes; the first time,
// everything. Files with the same bytes as before are not parsed again.
func (f *folder) read(paths []string) ([]sync.Event, report) {
	var r report
	maps.DeleteFunc(f.files, func(path string, _ *file) bool {
		_, found := slices.BinarySearch(paths, path)
		return !found
	})
	for _, path := range paths {
		f.readFile(path, &r)
	}
	now := f.merge(paths, &r)
	events := changes(f.current, now, f.parser.node)
	f.current = now
	return events, r
}

// readFile reads one file. A file that cannot be read keeps its objects.
func (f *folder) readFile(path string, r *report) {
	known := f.files[path]
	if known == nil {
		known = &file{}
		f.files[path] = known
	}
	text, err := ReadFile(path, maxManifest)
	if err != nil {
		if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
			err = pathErr.Err
		}
		r.problems = append(append(r.problems, &Error{File: path, Err: err}), known.errors...)
		return
	}
	sum := sha256.Sum256(text)
	if known.objects != nil && known.sum == sum {
		r.problems = append(r.problems, known.errors...)
		return
	}
	known.sum = sum
	if len(text) == 0 && len(known.objects) > 0 {
		// Most likely it was truncated to be written again.
		for key, o := range known.objects {
			known.objects[key] = o.outdated()
		}
		empty := &Error{File: path, Warning: true, Err: errors.New("the file is empty, keeping its objects")}
		r.problems = append(append(r.problems, empty), known.errors...)
		return
	}
	p := f.parser.parse(path, text)
	var duplicates []*Error
	known.objects, duplicates = p.merge(known.objects)
	r.problems = append(append(r.problems, p.problems...), duplicates...)
	known.errors = slices.DeleteFunc(append(p.problems, duplicates...), func(e *Error) bool { return e.Warning })
	if len(p.skipped) > 0 {
		r.skipped = append(r.skipped, skippedKinds{path, p.skipped})
	}
}

// merge returns the current objects of a file, and errors for those it describes twice.
// An invalid object is removed. Only while some text of the file cannot be parsed, old
// objects replace those that it may contain.
func (p parsed) merge(old objects) (objects, []*Error) {
	now := objects{}
	var duplicates []*Error
	invalid := map[sync.Object]bool{}
	for _, o := range p.objects {
		if o.invalid {
			invalid[o.key] = true
			continue
		}
		if first, ok := now[o.key]; ok {
			duplicates = append(duplicates, duplicate(first, o))
			continue
		}
		now[o.key] = o
	}
	if !p.unparsed {
		return now, duplicates
	}
	for key, o := range old {
		if _, ok := now[key]; !ok && !invalid[key] {
			now[key] = o.outdated()
		}
	}
	return now, duplicates
}

// outdated returns the object as one that may not be current: a Service counts as the
// youngest of all, and holds no address against one of a valid file.
func (o object) outdated() object {
	if s, ok := o.value.(*model.Service); ok && s.Created != math.MaxInt64 {
		service := *s
		service.Created = math.MaxInt64
		o.value = &service
	}
	return o
}

// merge returns the objects of all files. If two describe the same object, the first counts.
func (f *folder) merge(paths []string, r *report) objects {
	all := objects{}
	var duplicates []*Error
	for _, path := range paths {
		for key, o := range f.files[path].objects {
			if first, taken := all[key]; taken {
				duplicates = append(duplicates, duplicate(first, o))
			} else {
				all[key] = o
			}
		}
	}
	slices.SortFunc(duplicates, func(a, b *Error) int { return strings.Compare(a.Error(), b.Error()) })
	r.problems = append(r.problems, duplicates...)
	return all
}

func duplicate(first, second object) *Error {
	return &Error{
		File: second.file, Document: second.document, Object: second.key,
		Err: fmt.Errorf("not used: already described by %s, document %d", first.file, first.document),
	}
}

// A listing has the files to read, by path, with what stat says of them: nil for a broken link.
type listing map[string]fs.FileInfo

// list returns the manifests at path: the file itself, or the folder's files.
func list(path string) (listing, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	path = filepath.Clean(path)
	if !info.IsDir() {
		return listing{path: info}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	out := listing{}
	for _, entry := range entries {
		name := filepath.Join(path, entry.Name())
		switch filepath.Ext(name) {
		case ".yaml", ".yml", ".json":
		default:
			continue
		}
		// Not folders, and not pipes, which might never end. A broken link is read, to report it.
		info, err := os.Stat(name)
		if !strings.HasPrefix(entry.Name(), ".") && (err != nil || info.Mode().IsRegular()) {
			out[name] = info
		}
	}
	return out, nil
}

// equal reports whether no file was added, removed, replaced or written.
func (l listing) equal(o listing) bool {
	return maps.EqualFunc(l, o, func(a, b fs.FileInfo) bool {
		if a == nil || b == nil {
			return a == nil && b == nil
		}
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
}

// youngerThan reports whether a file was written within the last time.
func (l listing) youngerThan(age time.Duration) bool {
	for _, info := range l {
		if info == nil {
			continue
		}
		if is := time.Since(info.ModTime()); is >= 0 && is < age {
			return true
		}
	}
	return false
}
