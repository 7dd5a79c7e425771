package manifests

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"

	yaml2 "go.yaml.in/yaml/v2"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonutil "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"kube-vmap/sync"
)

// A Document is one YAML document of a file.
type Document struct {
	line int // lines of the file before the document
	text []byte
}

// Documents splits a file at the lines that begin with "---", and returns the documents that have
// more than comments.
func Documents(text []byte) (out []Document) {
	add := func(d Document) {
		if !onlyComments(d.text) {
			out = append(out, d)
		}
	}
	start, at, before, line := 0, 0, 0, 0
	for each := range bytes.Lines(text) {
		rest, marked := bytes.CutPrefix(each, []byte("---"))
		if marked && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
			add(Document{before, text[start:at]})
			start, before = at+len("---"), line
		}
		at, line = at+len(each), line+1
	}
	add(Document{before, text[start:]})
	return out
}

// onlyComments reports whether YAML has comments and white space only.
func onlyComments(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// JSON converts the document to JSON, if it is not JSON already. A duplicate key is only a
// warning, because the API server uses the last one.
func (d Document) JSON() (data []byte, warning, err error) {
	if json.Valid(d.text) {
		return d.text, nil, nil
	}
	if err := checkAliases(d.text); err != nil {
		return nil, nil, err
	}
	data, strict := yaml.YAMLToJSONStrict(d.text)
	if strict == nil {
		return data, nil, nil
	}
	data, err = yaml.YAMLToJSON(d.text)
	return data, d.inFile(strict), d.inFile(err)
}

// lineNumber is how the YAML library names lines, of the document.
var lineNumber = regexp.MustCompile(`\bline \d+`)

// inFile translates lines in an error to lines of the file.
func (d Document) inFile(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(lineNumber.ReplaceAllStringFunc(err.Error(), func(text string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(text, "line "))
		return fmt.Sprintf("line %d", d.line+n)
	}))
}

// header is the kind and name of an object. It can be read even if other parts of the
// object are invalid.
type header struct {
	kind schema.GroupVersionKind
	key  sync.Object // its namespace is empty for Nodes and ServiceCIDRs
}

// readHeader reads the header of an object in JSON. A list may have its kind.
func readHeader(data []byte, kind schema.GroupVersionKind) (header, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return header{}, errors.New("not an object")
	}
	var h struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	}
	if err := jsonutil.Unmarshal(data, &h); err != nil {
		return header{}, err
	}
	h.Kind = cmp.Or(h.Kind, kind.Kind)
	h.APIVersion = cmp.Or(h.APIVersion, kind.GroupVersion().String())
	switch {
	case h.Kind == "":
		return header{}, field.Required(field.NewPath("kind"), "")
	case h.APIVersion == "":
		return header{}, field.Required(field.NewPath("apiVersion"), "")
	}
	version, err := schema.ParseGroupVersion(h.APIVersion)
	if err != nil {
		return header{}, field.Invalid(field.NewPath("apiVersion"), h.APIVersion, err.Error())
	}
	key := sync.Object{Kind: h.Kind, Name: h.Metadata.Name}
	if h.Kind == "Service" || h.Kind == "EndpointSlice" {
		key.Namespace = cmp.Or(h.Metadata.Namespace, metav1.NamespaceDefault)
	}
	return header{version.WithKind(h.Kind), key}, nil
}

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

// checkAliases returns an error for a YAML document whose aliases expand to too much. The
// YAML library limits the number of values they expand to, but not their length.
func checkAliases(text []byte) error {
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
