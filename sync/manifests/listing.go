package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// listing is which files there are to read.
type listing struct {
	folder string   // in which changes of any file can be seen
	files  []string // paths, sorted
	// linked are other folders, in which files really are that are symbolic
	// links; without links on the way to them.
	linked []string
}

// list finds the manifests at path: the file itself, or those of the folder.
func list(path string) (listing, error) {
	folder, err := folderOf(path)
	if err != nil {
		return listing{}, err
	}
	out := listing{folder: folder}
	if path = filepath.Clean(path); path != folder {
		out.files = []string{path}
		out.follow()
		return out, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return listing{}, err
	}
	for _, entry := range entries {
		if name := filepath.Join(path, entry.Name()); isManifest(name) {
			out.files = append(out.files, name)
		}
	}
	out.follow()
	return out, nil
}

// follow notes where linked files really are. The folder itself must not be
// among that under another name: the kernel has one watch for both, and would
// end it for both.
func (l *listing) follow() {
	home, err := filepath.EvalSymlinks(l.folder)
	if err != nil {
		return // gone again; the next look will tell
	}
	for _, file := range l.files {
		target, err := filepath.EvalSymlinks(file)
		if dir := filepath.Dir(target); err == nil && dir != home && !slices.Contains(l.linked, dir) {
			l.linked = append(l.linked, dir)
		}
	}
}

// isManifest tells by name which files of a folder count. What is neither a
// file nor missing does not: a folder, or a pipe that would never end. A link
// to nothing counts, so that it is reported.
func isManifest(path string) bool {
	name := filepath.Base(path)
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
	default:
		return false
	}
	info, err := os.Stat(path)
	return !strings.HasPrefix(name, ".") && (err != nil || info.Mode().IsRegular())
}

// folderOf is the folder in which changes at path can be seen: path itself, or
// the one around a file.
func folderOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return filepath.Clean(path), nil
	}
	return filepath.Dir(path), nil
}
