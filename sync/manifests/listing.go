package manifests

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A listing has the files to read, by path, with what stat says of them: nil for a broken link.
type listing map[string]fs.FileInfo

// list returns the manifests at path: the file itself, or those of the folder.
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
		// Not folders, and not pipes, which might never end. A broken link is read, so that it is
		// reported.
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
