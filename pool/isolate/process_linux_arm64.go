package isolate

const memfdCreate = 279
