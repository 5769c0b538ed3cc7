import json,subprocess,os,collections
from roofbook.store.parquet import Store
import pandas as pd
s=Store('./results'); f=[]
for lab in ['cnn','stencil','convpool','lbm','lenet','peaks']:
    f+=[s.rows(lab,where=('recorded',)),s.rows(lab,where=('recorded',),role='profile')]
df=pd.concat([x for x in f if len(x)],ignore_index=True)
df.to_pickle('rekey.work/rows.pkl')
rows=[]
for i,r in enumerate(df.itertuples()):
    p=json.loads(r.policy); g=(json.loads(r.provenance).get('git') or {}).get('commit')
    rows.append(dict(i=i,lab=r.lab,variant=r.variant,case=r.case,scale=r.scale,units=int(r.units),dtype=r.dtype,backend=r.backend,device=r.device,cache=p['cache'],seed=p['seed'],role=r.role,cell_key=r.cell_key,source_sha256=r.source_sha256 if isinstance(r.source_sha256,str) else None,commit=g))
json.dump(rows,open('rekey.work/rows.json','w'))
by=collections.defaultdict(list)
for r in rows: by[r['commit']].append(r)
print({k:len(v) for k,v in by.items()})
