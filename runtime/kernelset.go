package runtime

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/purecuda/purecuda/driver"
)

// Kernels finds kernels of the module by the names of the fields of a structure, to which into points:
//
//	var k struct {
//		Saxpy *runtime.Kernel
//		Scale *runtime.Kernel `cuda:"scale<float>"`
//	}
//	err := m.Kernels(&k)
//
// Each field of type *Kernel is set to the kernel of its name, as by [Module.Kernel], or of the name in
// its tag. Other fields stay as they are. If a kernel is not there, no field is set, and the error
// names all that are missing.
func (m *Module) Kernels(into any) error {
	if m == nil || m.ctx == nil {
		return errNothing("module")
	}
	to := reflect.ValueOf(into)
	if to.Kind() != reflect.Pointer || to.IsNil() || to.Elem().Kind() != reflect.Struct {
		return driver.Errorf(driver.ErrInvalidArgument, "Kernels of a %T: want a pointer to a structure", into)
	}
	to = to.Elem()
	var errs []error
	found := map[int]*Kernel{}
	for i := range to.NumField() {
		field := to.Type().Field(i)
		if field.Type != reflect.TypeFor[*Kernel]() {
			continue
		}
		name := field.Name
		if tag, ok := field.Tag.Lookup("cuda"); ok {
			name = tag
		}
		k, err := m.Kernel(name)
		switch {
		case !field.IsExported():
			err = driver.Errorf(driver.ErrInvalidArgument, "field %s cannot be set: let its name begin with a capital", field.Name)
		case err != nil:
			err = fmt.Errorf("field %s: %w", field.Name, err)
		}
		errs = append(errs, err)
		found[i] = k
	}
	if len(found) == 0 {
		return driver.Errorf(driver.ErrInvalidArgument, "%T has no field of type *runtime.Kernel", into)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, k := range found {
		to.Field(i).Set(reflect.ValueOf(k))
	}
	return nil
}
