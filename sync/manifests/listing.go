package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// listing is what there is to read and to watch.
type listing struct {
	folder string   // the folder of the files
	files  []string // paths, sorted
	// linked are the folders of the targets of files that are symbolic links, without links
	// in their paths.
	linked []string
}

// list returns the manifests at path: the file itself, or those of the folder.
func list(path string) (listing, error) {
	folder, err := folderOf(path)
	if err != nil {
		return listing{}, err
	}
	out := listing{folder: folder}
	if path = filepath.Clean(path); path != folder {
		out.files = []string{path}
		out.resolveLinks()
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
	out.resolveLinks()
	return out, nil
}

// resolveLinks finds the folders of linked files. The folder itself must not be among
// them under another name: the kernel has one watch for both, and would end it for both.
func (l *listing) resolveLinks() {
	home, err := filepath.EvalSymlinks(l.folder)
	if err != nil {
		return // gone again, as the next scan finds
	}
	for _, file := range l.files {
		target, err := filepath.EvalSymlinks(file)
		if dir := filepath.Dir(target); err == nil && dir != home && !slices.Contains(l.linked, dir) {
			l.linked = append(l.linked, dir)
		}
	}
}

// isManifest reports whether a file of a folder is read, by its name and type: not
// folders, and not pipes, which might never end. A broken link is read, so that it is
// reported.
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

// folderOf returns the folder to watch: path itself, or the folder of a file.
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
