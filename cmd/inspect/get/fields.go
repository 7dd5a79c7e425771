package get

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
)

// field is a field for --field-selector.
type field struct {
	name string
	of   func(*item) string
	// read normalizes a value; the error lists the valid ones. If nil, any text is valid.
	read func(string) (string, error)
}

func (r *resource) fieldNames() (names []string) {
	for _, f := range r.fields {
		names = append(names, f.name)
	}
	return names
}

func (r *resource) fieldsOf(i *item) fields.Set {
	out := make(fields.Set, len(r.fields))
	for _, f := range r.fields {
		out[f.name] = f.of(i)
	}
	return out
}

func (r *resource) selector(text string) (fields.Selector, error) {
	s, err := fields.ParseSelector(text)
	if err != nil {
		return nil, fmt.Errorf("--field-selector: %w", err)
	}
	if s.Empty() {
		return s, nil
	}
	return s.Transform(func(name, value string) (string, string, error) {
		i := slices.IndexFunc(r.fields, func(f field) bool { return f.name == name })
		if i < 0 {
			return "", "", fmt.Errorf("--field-selector: %s have no field %s; they have %s", r.plural, name,
				strings.Join(r.fieldNames(), ", "))
		}
		if r.fields[i].read == nil {
			return name, value, nil
		}
		value, err := r.fields[i].read(value)
		if err != nil {
			return "", "", fmt.Errorf("--field-selector: %s: %w", name, err)
		}
		return name, value, nil
	})
}

// one reads one of some words, which may include an empty one.
func one(words ...string) func(string) (string, error) {
	return func(value string) (string, error) {
		if slices.Contains(words, value) {
			return value, nil
		}
		shown := slices.Clone(words)
		if i := slices.Index(shown, ""); i >= 0 {
			shown[i] = "nothing"
		}
		return "", fmt.Errorf("%q is not one of %s", value, strings.Join(shown, ", "))
	}
}

// address reads an address in any spelling, or an empty text.
func address(value string) (string, error) {
	if value == "" {
		return value, nil
	}
	a, err := netip.ParseAddr(strings.Trim(value, "[]"))
	if err != nil {
		return "", fmt.Errorf("%q is not an address", value)
	}
	return a.Unmap().String(), nil
}

func portNumber(value string) (string, error) {
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return "", fmt.Errorf("%q is not a port number", value)
	}
	return strconv.FormatUint(n, 10), nil
}

// wanted is a name on the command line. Addresses are compared as values, since there are
// many ways to write one.
type wanted struct {
	text      string
	target    target
	isAddress bool
}

// target is an address with an optional port and protocol: "10.96.0.10",
// "10.96.0.10:53", "[fd00::a]:53/udp", "*:30053/tcp".
type target struct {
	address  netip.Addr // invalid for any address of the node
	any      bool       // it is any address of the node
	port     uint16
	protocol string
}

// parseTarget parses an address with an optional port and protocol.
func parseTarget(text string) (s target, ok bool) {
	where, protocol, named := strings.Cut(text, "/")
	if named {
		s.protocol = strings.ToLower(protocol)
	}
	if port, wild := strings.CutPrefix(where, "*:"); wild {
		n, err := strconv.ParseUint(port, 10, 16)
		s.any, s.port = true, uint16(n)
		return s, err == nil
	}
	if at, err := netip.ParseAddrPort(where); err == nil {
		s.address, s.port = at.Addr().Unmap(), at.Port()
		return s, true
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(where, "["), "]"))
	s.address = a.Unmap()
	return s, err == nil
}

// is reports whether it is the name of a row, that of its Service, or its address.
func (w wanted) is(name, service string) bool {
	if w.text == name || w.text == service {
		return true
	}
	if !w.isAddress || name == service {
		return false
	}
	s := w.target
	row, ok := parseTarget(name)
	return ok && s.any == row.any && s.address == row.address && (s.port == 0 || s.port == row.port) &&
		(s.protocol == "" || s.protocol == row.protocol)
}
