package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// archive writes the first file system of a machine: a cpio archive in the format
// "newc" (Documentation/driver-api/early-userspace/buffer-format.rst of Linux).
// Paths are absolute; folders are created as needed, and existing entries are not
// replaced. close returns the first error.
type archive struct {
	file  *os.File
	w     *bufio.Writer
	there map[string]bool
	err   error
}

func newArchive(name string) (*archive, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("create the machine's disk: %w", err)
	}
	return &archive{file: file, w: bufio.NewWriterSize(file, 1<<20), there: map[string]bool{"/": true}}, nil
}

// close finishes the archive.
func (a *archive) close() error {
	a.entry("TRAILER!!!", 0, 0)
	if err := errors.Join(a.err, a.w.Flush(), a.file.Close()); err != nil {
		return fmt.Errorf("create the machine's disk: %w", err)
	}
	return nil
}

// text adds a file with this content.
func (a *archive) text(at, content string) {
	if a.place(at) {
		a.entry(at, 0o644|regular, len(content))
		a.content(strings.NewReader(content), len(content))
	}
}

// copy adds a file of this machine, or a folder with its content. Symbolic links below a
// folder are kept.
func (a *archive) copy(at, from string) {
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		a.fail(err)
		return
	}
	a.fail(filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		rest, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		a.one(path.Join(at, rest), name, info)
		return a.err
	}))
}

// one adds one file, folder or link.
func (a *archive) one(at, from string, info fs.FileInfo) {
	switch {
	case info.IsDir():
		a.dir(at)
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(from)
		a.fail(err)
		a.link(at, to)
	case info.Mode().IsRegular() && a.place(at):
		file, err := os.Open(from)
		if err != nil {
			a.fail(err)
			return
		}
		defer func() { _ = file.Close() }()
		a.entry(at, info.Mode().Perm()|regular, int(info.Size()))
		a.content(file, int(info.Size()))
	}
}

// link adds a symbolic link.
func (a *archive) link(at, to string) {
	if a.place(at) {
		a.entry(at, 0o777|symlink, len(to))
		a.content(strings.NewReader(to), len(to))
	}
}

// dir adds a folder and its parents.
func (a *archive) dir(at string) {
	if a.place(at) {
		a.entry(at, 0o755|directory, 0)
	}
}

// place reports whether a path is new, and marks it as used.
func (a *archive) place(at string) bool {
	if a.there[at] {
		return false
	}
	a.dir(path.Dir(at))
	a.there[at] = true
	return true
}

// Kinds of entries, as in stat(2).
const (
	regular   = 0o100000
	directory = 0o040000
	symlink   = 0o120000
)

// entry writes a header. All files belong to root and have time 0.
func (a *archive) entry(at string, mode fs.FileMode, size int) {
	name := strings.TrimPrefix(at, "/") + "\x00"
	// inode, mode, uid, gid, links, time, size, device (2), its own device (2), length of the name, checksum
	fmt.Fprintf(a.w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s",
		len(a.there), uint32(mode), 0, 0, 1, 0, size, 0, 0, 0, 0, len(name), 0, name)
	a.pad(110 + len(name))
}

func (a *archive) content(r io.Reader, size int) {
	if n, err := io.Copy(a.w, r); err != nil || n != int64(size) {
		a.fail(fmt.Errorf("%d bytes of %d: %w", n, size, errors.Join(err, io.ErrUnexpectedEOF)))
	}
	a.pad(size)
}

// pad writes zeros up to the next multiple of 4.
func (a *archive) pad(size int) { a.w.WriteString("\x00\x00\x00"[:-size&3]) }

func (a *archive) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}
