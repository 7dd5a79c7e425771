package convert

import (
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-vmap/model"
)

func TestWeightOfSlice(t *testing.T) {
	const ours, cilium = "kube-vmap.io/weight", "service.cilium.io/weight"
	for name, test := range map[string]struct {
		annotations map[string]string
		weight      uint16
		drained     bool
		err         string // the annotation with a bad value
	}{
		"none":                        {nil, 0, false, ""},
		"ours":                        {map[string]string{ours: "7"}, 7, false, ""},
		"the largest":                 {map[string]string{ours: "65535"}, 65535, false, ""},
		"zero drains":                 {map[string]string{ours: "0"}, 0, true, ""},
		"that of Cilium":              {map[string]string{cilium: "3"}, 3, false, ""},
		"that of Cilium drains":       {map[string]string{cilium: "0"}, 0, true, ""},
		"ours comes first":            {map[string]string{ours: "7", cilium: "3"}, 7, false, ""},
		"too large":                   {map[string]string{ours: "65536"}, 0, false, ours},
		"negative":                    {map[string]string{ours: "-1"}, 0, false, ours},
		"with a space":                {map[string]string{cilium: "1 "}, 0, false, cilium},
		"a bad one hides the other":   {map[string]string{ours: "many", cilium: "0"}, 0, false, ours},
		"of great length, and quotes": {map[string]string{ours: strings.Repeat("\"\n", 1000)}, 0, false, ours},
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range model.Families {
				got, errs := Slice(slice(func(s *discoveryv1.EndpointSlice) {
					s.Annotations = test.annotations
					if f == model.IPv6 {
						s.AddressType, s.Endpoints[0].Addresses[0] = discoveryv1.AddressTypeIPv6, "fd00::5"
					}
				}))
				if got == nil || got.Weight != test.weight || got.Drained != test.drained {
					t.Errorf("%s: got %+v", f, got)
				}
				switch {
				case test.err == "" && len(errs) > 0:
					t.Errorf("%s: errors %v", f, errs)
				case test.err != "" && (len(errs) != 1 || errs[0].Field != "metadata.annotations["+test.err+"]" || len(errs[0].Error()) > 1000):
					t.Errorf("%s: errors %v, want one of %s", f, errs, test.err)
				}
			}
		})
	}
}
