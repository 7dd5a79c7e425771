package manifests

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	yaml2 "go.yaml.in/yaml/v2"
	"golang.org/x/sys/unix"
)

// What a file may cost. A hundred thousand Services fit in it.
const (
	// maxManifest is how long a file may be, in bytes.
	maxManifest = 64 << 20
	// maxAliased is how much aliases may make of a document, in bytes, beyond four
	// times its length.
	maxAliased = 4 << 20
	// maxUnrecognised is how many documents, or items of lists, of a file may be garbled
	// before the rest is not looked at.
	maxUnrecognised = 1000
	// maxReread is how many documents of a file are read once more, with all lines
	// before them, to name the line of the file that is at fault.
	maxReread = 20
)

var (
	errNotRegular = errors.New("not a regular file")

	errTooLong = fmt.Errorf("longer than %d bytes", maxManifest)
	errAliases = errors.New("aliases repeat too much of it")
	errTooMuch = errors.New("too much cannot be made out: the rest of the file is not read")
)

// readManifest reads a regular file that is no longer than may be.
func readManifest(path string) (text []byte, err error) {
	// Others than regular files may never end, or keep the reader waiting.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, errNotRegular)
	}
	text, err = io.ReadAll(io.LimitReader(file, maxManifest+1))
	if err == nil && len(text) > maxManifest {
		return nil, errTooLong
	}
	return text, err
}

// CheckAliases refuses a YAML document in which aliases repeat more than may be. The
// library limits how many values they stand for, but not how long those are.
func CheckAliases(text []byte) error {
	if !bytes.Contains(text, []byte("&")) || !bytes.Contains(text, []byte("*")) {
		return nil
	}
	var value any
	if err := yaml2.Unmarshal(text, &value); err != nil {
		return nil //nolint:nilerr // what else is wrong is found later
	}
	if expanded(value) > 4*len(text)+maxAliased {
		return errAliases
	}
	return nil
}

// expanded is about how long a value is as JSON.
func expanded(value any) int {
	n := 4
	switch v := value.(type) {
	case string:
		n += len(v)
	case []any:
		for _, item := range v {
			n += expanded(item)
		}
	case map[any]any:
		for key, item := range v {
			n += expanded(key) + expanded(item)
		}
	}
	return n
}
