package takeover

import (
	"fmt"
	"testing"

	"kube-vmap/model"
)

func TestSampleIsOfManyNamespacesAndTheAPIServer(t *testing.T) {
	var all []target
	add := func(namespace, name string, n int) {
		for range n {
			service := model.ServicePortName{ServiceName: model.ServiceName{Namespace: namespace, Name: name}}
			all = append(all, target{clusterIP(len(all)), service})
		}
	}
	add("large", "web", 200)
	add("default", "kubernetes", 2)
	for n := range 9 {
		add(fmt.Sprint("small-", n), "web", 1)
	}
	count := map[string]int{}
	for _, s := range choose(all) {
		count[s.service.Namespace]++
	}
	if len(count) != 11 || count["default"] != 2 || count["large"] != sampleSize-11 {
		t.Errorf("sample by namespace: %v", count)
	}
}
