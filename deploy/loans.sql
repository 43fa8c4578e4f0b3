-- The loans of bank-3 in PostgreSQL, from the file that tables.py writes.
CREATE TABLE loans (
    annual_inc double precision, funded_amnt double precision, revol_util double precision, int_rate double precision
);
COPY loans FROM '/tables/bank-3.csv' CSV HEADER;
