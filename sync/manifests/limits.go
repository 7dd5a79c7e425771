package manifests

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	yaml2 "go.yaml.in/yaml/v2"
	"golang.org/x/sys/unix"
)

// Limits of one file. A hundred thousand Services fit in it.
const (
	// maxManifest is the longest file, in bytes.
	maxManifest = 64 << 20
	// maxAliased is how much longer, in bytes, than four times its length a document may be
	// when its aliases are expanded.
	maxAliased = 4 << 20
	// maxParseErrors is how many documents, or items of lists, of a file may fail to parse
	// before the rest is skipped.
	maxParseErrors = 1000
)

var (
	errNotRegular    = errors.New("not a regular file")
	errTooLong       = errors.New("longer")
	errAliases       = errors.New("aliases expand to too much")
	errTooManyErrors = errors.New("too many errors, the rest of the file is skipped")
)

// ReadFile reads a regular file of at most so many bytes.
func ReadFile(path string, most int64) (text []byte, err error) {
	// Other files may never end, or block the reader.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or[error](err, &fs.PathError{Op: "read", Path: path, Err: errNotRegular})
	}
	text, err = io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%w than %d bytes", errTooLong, most)
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return text, err
}

// CheckAliases returns an error for a YAML document whose aliases expand to too much. The
// YAML library limits the number of values they expand to, but not their length.
func CheckAliases(text []byte) error {
	if !bytes.Contains(text, []byte("&")) || !bytes.Contains(text, []byte("*")) {
		return nil
	}
	var value any
	if err := yaml2.Unmarshal(text, &value); err != nil {
		return nil //nolint:nilerr // other errors are found later
	}
	if expanded(value) > 4*len(text)+maxAliased {
		return errAliases
	}
	return nil
}

// expanded returns the approximate length of a value as JSON.
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
