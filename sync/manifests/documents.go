package manifests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// document is one YAML document of a file.
type document struct {
	number int // from 1
	line   int // of the file, before the document begins
	text   []byte
	err    error // why the document cannot be told from the next; text is then lost
}

// splitDocuments splits a file at the lines "---". Comments alone
// are no document.
func splitDocuments(text []byte) []document {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	reader := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var out []document
	line, rest := 0, text
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		// The reader does not say where a document was, only what.
		if at := bytes.Index(rest, bytes.TrimRight(doc, "\n")); err == nil && at >= 0 {
			line += bytes.Count(rest[:at], []byte("\n"))
			if !onlyComments(doc) {
				out = append(out, document{number: len(out) + 1, line: line, text: doc})
			}
			end := min(at+len(doc), len(rest))
			line, rest = line+bytes.Count(rest[at:end], []byte("\n")), rest[end:]
			continue
		}
		out = append(out, document{number: len(out) + 1, text: doc, err: err})
	}
}

// onlyComments reports whether YAML has nothing to say.
func onlyComments(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// toJSON makes JSON of the document, which may be JSON already. A key that is
// there twice is only worth a warning, because the API server takes the last
// one. Lines in errors are lines of the file; unless it may be read once more, they
// are those of the document.
func (d document) toJSON(reread func() bool) (data []byte, warning, err error) {
	switch {
	case d.err != nil:
		return nil, nil, d.err
	case json.Valid(d.text):
		return d.text, nil, nil
	}
	if err := CheckAliases(d.text); err != nil {
		return nil, nil, err
	}
	if data, err = yaml.YAMLToJSONStrict(d.text); err == nil {
		return data, nil, nil
	}
	text := d.text
	if reread() {
		text = append(bytes.Repeat([]byte("\n"), d.line), text...)
	}
	_, strict := yaml.YAMLToJSONStrict(text)
	data, err = yaml.YAMLToJSON(text)
	return data, strict, err
}
