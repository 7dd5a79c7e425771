package get

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
)

type field struct {
	name string
	of   func(*item) string
	// values are all that it may have; none if any text is valid.
	values []string
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
		if all := r.fields[i].values; all != nil && value != "" && !slices.Contains(all, value) {
			return "", "", fmt.Errorf("--field-selector: %s: %q is not one of %s", name, value, strings.Join(all, ", "))
		}
		if a, err := netip.ParseAddr(strings.Trim(value, "[]")); err == nil { // in any spelling
			value = a.Unmap().String()
		}
		return name, value, nil
	})
}

// target is an address with an optional port and protocol: "10.96.0.10",
// "10.96.0.10:53", "[fd00::a]:53/udp", "*:30053/tcp".
type target struct {
	address  netip.Addr // invalid for any address of the node
	any      bool       // it is any address of the node
	port     uint16
	protocol string
}

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

// isNamed reports whether a name on the command line is the name of a row or of its Service, or an
// address of the row, which can be written in many ways.
func isNamed(i *item, row, name string) bool {
	if name == row || name == i.s.Name {
		return true
	}
	want, ok := parseTarget(name)
	if !ok {
		return false
	}
	have, isAddress := parseTarget(row)
	return isAddress && want.any == have.any && want.address == have.address &&
		(want.port == 0 || want.port == have.port) && (want.protocol == "" || want.protocol == have.protocol)
}
